"""torchrec's own sharding tests over a grid of cases on emulated NPUs: `python -m grid` (see command.py)."""
