"""How a model is trained: steps, pipeline, optimizer, several processes."""
