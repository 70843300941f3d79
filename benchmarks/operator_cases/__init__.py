"""The cases of ``python benchmarks/operators.py``: CPU kernels of the operators against their named peers."""
