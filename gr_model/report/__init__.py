"""What a run tells people: pages, figures, TensorBoard, the terminal."""
