"""What a model is trained for: losses, evaluation, metrics and baselines."""
