"""The toolchain behind tasks.py: plan first, act second."""
