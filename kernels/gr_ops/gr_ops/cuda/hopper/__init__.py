"""HSTU attention for Hopper GPUs (H100, H200) in Gluon, Triton's language of layouts, barriers and warp groups.

TMA loads and adds, wgmma multiplies, and groups of warps have tasks of their own. Gluon is experimental: paths.py says
with which versions, and for which problems, these kernels take over from Triton's. Gluon and not CUDA C++: measured
faster than the CUTLASS kernels for the same formula (benchmarks/results), and compiled at the first call for the shapes
that are used, with no binary for each version of PyTorch.

    ranges.py    tiles of keys and of queries that a mask leaves; plain Triton
    order.py     the list of work of ragged rows; plain Triton
    work.py      the order of work
    rows.py      what forward.py and backward.py share
    launch.py    from tensors to kernels
"""
