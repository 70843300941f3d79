"""HSTU attention for Hopper GPUs (H100, H200) in Gluon, Triton's language of layouts, barriers and warp groups.

TMA loads and adds, wgmma multiplies, and groups of warps have tasks of their own. Gluon is experimental: paths.py says
with which versions, and for which problems, these kernels take over from Triton's. Gluon and not CUDA C++: of 8 rows of
4096 tokens, 4 heads of 128 in bfloat16, FBGEMM's kernels in CUTLASS take 0.29 ms forward and 0.87 backward on an H100
(docs/targets.md), these 0.20 and 0.66 (benchmarks/results/hstu-attention-*.md). And what is compiled are, at
their first call, the shapes in use; CUTLASS takes a minute and a half for each, for each version of PyTorch.

    tile_ranges.py    tiles of keys and of queries that a mask leaves; plain Triton
    work_list.py     the list of work of ragged rows; plain Triton
    scheduler.py      the order of work
    structs.py, ring.py, batch.py, work_queue.py   what forward.py and backward.py share
    key_gradients.py, query_gradients.py, gradient_memory.py   the parts of backward.py
    wide_keys.py, wide_queries.py, wide.py   the backward pass of heads wider than 128
    relative.py, table_sums.py   the relative bias and the gradients of its tables
    times.py, near_sums.py   what they read, and the gradients of the tiles at the diagonal; plain Triton
    diagonals.py         the position's gradient from the sums of blocks; plain Triton
    launch.py    from tensors to kernels
"""
