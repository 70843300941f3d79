"""CPU kernels of the operators against their named peers, in one run: ``python -m benchmarks.operators``."""
