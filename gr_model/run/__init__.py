"""A run on disk: its folder, id, plan, log and checkpoints."""
