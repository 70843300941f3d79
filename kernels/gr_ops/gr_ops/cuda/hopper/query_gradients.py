"""The warpgroup of the backward pass that adds to the gradient of queries, and to those of a relative bias."""

from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from gr_ops.cuda.hopper.batch import Batch
from gr_ops.cuda.hopper.gradient_memory import HALF, Shared
from gr_ops.cuda.hopper.relative import Relative
from gr_ops.cuda.hopper.ring import clear_behind
from gr_ops.cuda.hopper.table_sums import Sums, add_tile, nothing_yet, put_all
from gr_ops.cuda.hopper.work_queue import WorkQueue


@builtin
def tma_add(desc, coord, source, _semantic=None):
    """Adds shared memory to what TMA addresses. Gluon's Python of Triton 3.6 lacks it, its builder has it."""
    coord = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, coord, source.handle)


@gluon.jit
def of_queries(m: Shared, queue: WorkQueue, batch: Batch, relative: Relative, sums: Sums, dq_desc, key_scale):
    """Adds to the gradient of queries what 128 keys contribute, WIDTH columns at a time; and, with a relative bias, to
    those of its tables."""
    WIDTH: gl.constexpr = m.dq.shape[3]
    PARTS: gl.constexpr = m.P // WIDTH
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, WIDTH, 16])
    dq_shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([m.Q, WIDTH], gl.float32)
    zero = gl.zeros([m.Q, WIDTH], gl.float32, layout)
    used = 0
    turn = 0
    item = queue.read(turn)
    while item.tile >= 0:
        first = item.tile * (2 * HALF)
        length = item.length
        queries = batch.query_tiles(item, m.Q)
        m.wait_for_keys(turn)
        k_0 = m.k.matrix(0)
        k_1 = m.k.matrix(1)
        clear_behind(k_0, length - first, HALF, m.P)
        clear_behind(k_1, length - first - HALF, HALF, m.P)
        if relative.ON:
            running = nothing_yet()
        for j in range(queries.masked + queries.unmasked):
            slot = used % m.SLOTS
            phase = (used // m.SLOTS) & 1
            mbarrier.wait(m.ds_full.index(slot * 2), phase)
            mbarrier.wait(m.ds_full.index(slot * 2 + 1), phase)
            if relative.ON:
                at, bits_0, bits_1 = m.about_ds(slot)
            else:
                at, _end = queries.tile(j)
            for part in gl.static_range(PARTS):
                dq = warpgroup_mma(
                    m.ds.index(slot * 2).permute((1, 0)),
                    k_0.slice(part * WIDTH, WIDTH, 1),
                    zero,
                    use_acc=False,
                    is_async=True,
                )
                dq = warpgroup_mma(
                    m.ds.index(slot * 2 + 1).permute((1, 0)), k_1.slice(part * WIDTH, WIDTH, 1), dq, is_async=True
                )
                dq = warpgroup_mma_wait(0, deps=(dq,))
                if part == PARTS - 1 and not relative.ON:
                    mbarrier.arrive(m.ds_empty.index(slot), count=1)
                dq = dq * key_scale
                if at + m.Q > length:  # nothing, not even NaN, to the next sequence
                    query = at + gl.arange(0, m.Q, gl.SliceLayout(1, layout))
                    dq = gl.where((query < length)[:, None], dq, 0.0)
                tma.store_wait(PARTS - 1)
                dq_s = m.dq.index(part)
                dq_s._reinterpret(gl.float32, [m.Q, WIDTH], dq_shared).store(dq)
                fence_async_shared()
                tma_add(dq_desc, [item.begin + at, item.head, part * WIDTH], dq_s)
            if relative.ON:
                running = add_tile(
                    m.whole_ds(slot),
                    m.ds.index(slot * 2),
                    m.ds.index(slot * 2 + 1),
                    sums,
                    relative,
                    running,
                    item,
                    first,
                    at,
                    bits_0,
                    bits_1,
                    key_scale,
                    batch.SEGMENTS,
                )
                mbarrier.arrive(m.ds_empty.index(slot), count=1)
            used += 1
        if relative.ON:
            put_all(sums, running, key_scale)
        mbarrier.arrive(m.k_empty.index(0), count=1)
        turn += 1
        item = queue.read(turn)
    tma.store_wait(0)
