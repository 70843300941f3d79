"""The backward pass on Hopper: five products a tile in one kernel.

A program has 128 keys of one head and goes through their queries. Two warpgroups have 64 keys each: scores, weights,
the gradients of keys and values. A third multiplies the gradient of scores by the keys and adds it to the gradient of
queries in memory (float32, TMA's reduction): it is the only one that waits for both, so they run at their own pace. A
warp loads. Sums over programs come in any order, so bits may differ between runs.
"""

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

from gr_ops.cuda.hopper.batch import NUMBERS, POINTERS, Batch, tanh
from gr_ops.cuda.hopper.ring import Halves, Ring, clear_behind, make_barriers, make_halves, make_ring
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.work_queue import WorkQueue, draw_from, make_work_queue

HALF = gl.constexpr(64)  # keys of a warpgroup


@builtin
def tma_add(desc, coord, source, _semantic=None):
    """Adds shared memory to what TMA addresses. Gluon's Python of Triton 3.6 lacks it, its builder has it."""
    coord = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, coord, source.handle)


@struct
class Shared:
    k: Halves
    v: Halves
    kv_full: gl.shared_memory_descriptor
    kv_empty: gl.shared_memory_descriptor
    q: Ring
    grad: Ring
    ds: gl.shared_memory_descriptor  # [2 SLOTS, 64, Q]
    ds_full: gl.shared_memory_descriptor
    ds_empty: gl.shared_memory_descriptor
    dq: gl.shared_memory_descriptor  # [P / WIDTH, Q, 1, WIDTH] float32
    P: gl.constexpr
    Q: gl.constexpr
    SLOTS: gl.constexpr

    @gluon.jit
    def put_ds(self, used, values, PART: gl.constexpr):
        """A warpgroup's half of the gradient of scores, for the partition of queries."""
        slot = used % self.SLOTS
        mbarrier.wait(self.ds_empty.index(slot), ((used // self.SLOTS) & 1) ^ 1)
        self.ds.index(slot * 2 + PART).store(values)
        fence_async_shared()
        mbarrier.arrive(self.ds_full.index(slot * 2 + PART), count=1)


@gluon.jit
def _load(q_desc, k_desc, v_desc, grad_desc, m: Shared, queue: WorkQueue, batch: Batch):
    items = batch.how_many()
    number = gl.program_id(0)
    used = 0
    turn = 0
    while number < items:
        item = batch.item(number)
        queue.publish(turn, item)
        queries = batch.query_tiles(item, m.Q)
        for j in range(queries.masked + queries.unmasked):
            at, end = queries.tile(j)
            m.q.load(used, q_desc, item.begin + at, item.head)
            if j == 0:  # queries can come while the last item still needs its keys
                first = item.begin + item.tile * (2 * HALF)
                mbarrier.wait(m.kv_empty.index(0), (turn & 1) ^ 1)
                mbarrier.expect(m.kv_full.index(0), 4 * HALF * m.P * 2)
                m.k.load(k_desc, first, item.head, m.kv_full.index(0))
                m.v.load(v_desc, first, item.head, m.kv_full.index(0))
            m.grad.load(used, grad_desc, item.begin + at, item.head)
            used += 1
        number = draw_from(batch.counter, items)
        turn += 1
    queue.end(turn)


@gluon.jit
def _add(dk, dv, m: Shared, batch: Batch, used, at, end, key, item, half, PART: gl.constexpr, MASKED: gl.constexpr):
    """What the queries from `at` on add to the gradients of keys and values."""
    dtype: gl.constexpr = m.q.data.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    g_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    a_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=g_layout, k_width=2)
    zero = gl.zeros([HALF, m.Q], gl.float32, s_layout)
    stage, phase = m.q.place(used)
    q = m.q.matrix(stage)
    grad = m.grad.matrix(stage)
    m.q.wait(stage, phase)
    if MASKED:
        clear_behind(q, item.length - at, m.Q, m.P)
    score = warpgroup_mma(m.k.matrix(PART), q.permute((1, 0)), zero, use_acc=False)
    h = score * half
    t = tanh(h)
    silu = h * t + h
    slope = 0.5 * t + 0.5
    slope = slope + silu * (1.0 - slope)
    if MASKED:
        query = at + gl.arange(0, m.Q, gl.SliceLayout(0, s_layout))
        found = batch.sees(query[None, :], key[:, None], item) & (query < end)[None, :]
        silu = gl.where(found, silu, 0.0)
        slope = gl.where(found, slope, 0.0)
    slope = slope.to(gl.float16)  # between -0.1 and 1.1: half the registers, an eighth of bfloat16's error
    p = gl.convert_layout(silu.to(dtype), a_layout)
    m.grad.wait(stage, phase)
    if MASKED:
        clear_behind(grad, item.length - at, m.Q, m.P)
    p_token = warpgroup_mma(m.v.matrix(PART), grad.permute((1, 0)), zero, use_acc=False, is_async=True)
    dv_token = warpgroup_mma(p, grad, dv, is_async=True)
    of_weight = warpgroup_mma_wait(1, deps=(p_token,))
    of_score = of_weight * slope.to(gl.float32)
    if MASKED:
        of_score = gl.where(found, of_score, 0.0)
    of_score = of_score.to(dtype)
    m.put_ds(used, of_score, PART)
    a = gl.convert_layout(of_score, a_layout)
    dk_token = warpgroup_mma(a, q, dk, is_async=True)
    dv, _p = warpgroup_mma_wait(1, deps=(dv_token, p))
    m.grad.release(stage)
    dk, _a = warpgroup_mma_wait(0, deps=(dk_token, a))
    m.q.release(stage)
    return dk, dv


@gluon.jit
def _skip(m: Shared, used, PART: gl.constexpr):
    """A tile of queries that sees none of a warpgroup's keys."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    stage, phase = m.q.place(used)
    m.q.skip(stage, phase)
    m.grad.skip(stage, phase)
    m.put_ds(used, gl.zeros([HALF, m.Q], m.q.data.dtype, layout), PART)


@gluon.jit
def _of_keys(
    m: Shared,
    queue: WorkQueue,
    batch: Batch,
    dk_out,
    dv_out,
    dk_stride,
    dv_stride,
    half,
    scale,
    key_scale,
    D: gl.constexpr,
    PART: gl.constexpr,
):
    dtype: gl.constexpr = m.q.data.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    g_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    out_layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // m.P, m.P // 8], [4, 1], [1, 0])
    # The first tile of queries at the diagonal is before all keys of the second warpgroup.
    SKIPS: gl.constexpr = PART == 1 and m.Q == HALF and not batch.SEGMENTS
    used = 0
    turn = 0
    item = queue.read(turn)
    while item.tile >= 0:
        first = item.tile * (2 * HALF)
        length = item.length
        queries = batch.query_tiles(item, m.Q)
        key = first + PART * HALF + gl.arange(0, HALF, gl.SliceLayout(1, s_layout))
        dk = gl.zeros([HALF, m.P], gl.float32, g_layout)
        dv = gl.zeros([HALF, m.P], gl.float32, g_layout)
        mbarrier.wait(m.kv_full.index(0), turn & 1)
        if SKIPS:
            _skip(m, used, PART)
            used += 1
        for j in range(1 if SKIPS else 0, queries.masked):
            at, end = queries.tile(j)
            end = gl.minimum(end, length)
            dk, dv = _add(dk, dv, m, batch, used, at, end, key, item, half, PART, True)
            used += 1
        for _ in range(queries.unmasked):
            dk, dv = _add(dk, dv, m, batch, used, 0, 0, key, item, half, PART, False)
            used += 1
        mbarrier.arrive(m.kv_empty.index(0), count=1)
        token = first + PART * HALF + gl.arange(0, HALF, gl.SliceLayout(1, out_layout))
        column = gl.arange(0, m.P, gl.SliceLayout(0, out_layout))
        inside = (token < length)[:, None]
        if D != m.P:
            inside = inside & (column < D)[None, :]
        row = (item.begin + token).to(gl.int64)[:, None]
        place = item.head * D + column[None, :]
        of_values = gl.convert_layout((dv * scale).to(dtype), out_layout)
        gl.store(dv_out + row * dv_stride + place, of_values, mask=inside)
        of_keys = gl.convert_layout((dk * key_scale).to(dtype), out_layout)
        gl.store(dk_out + row * dk_stride + place, of_keys, mask=inside)
        turn += 1
        item = queue.read(turn)


@gluon.jit
def _of_queries(m: Shared, queue: WorkQueue, batch: Batch, dq_desc, key_scale):
    """Adds to the gradient of queries what 128 keys contribute, WIDTH columns at a time."""
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
        mbarrier.wait(m.kv_full.index(0), turn & 1)
        k_0 = m.k.matrix(0)
        k_1 = m.k.matrix(1)
        clear_behind(k_0, length - first, HALF, m.P)
        clear_behind(k_1, length - first - HALF, HALF, m.P)
        for j in range(queries.masked + queries.unmasked):
            at, end = queries.tile(j)
            slot = used % m.SLOTS
            phase = (used // m.SLOTS) & 1
            mbarrier.wait(m.ds_full.index(slot * 2), phase)
            mbarrier.wait(m.ds_full.index(slot * 2 + 1), phase)
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
                if part == PARTS - 1:
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
            used += 1
        mbarrier.arrive(m.kv_empty.index(0), count=1)
        turn += 1
        item = queue.read(turn)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def backward(
    q_desc,
    k_desc,
    v_desc,
    grad_desc,
    dq_desc,
    dk,
    dv,
    offsets,
    contexts,
    targets,
    items,
    counter,
    sequences,
    tiles,
    swizzle,
    total,
    longest,
    group,
    window,
    min_full,
    half,
    scale,
    key_scale,
    dk_stride,
    dv_stride,
    HEADS: gl.constexpr,
    D: gl.constexpr,
    P: gl.constexpr,
    Q: gl.constexpr,
    STAGES: gl.constexpr,
    SLOTS: gl.constexpr,
    REGISTERS: gl.constexpr,
    LISTED: gl.constexpr,
    SEGMENTS: gl.constexpr,
    WINDOW: gl.constexpr,
):
    WIDTH: gl.constexpr = dq_desc.block_type.shape[2]
    ds_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HALF, Q], q_desc.dtype)
    batch = Batch(
        offsets,
        contexts,
        targets,
        items,
        counter,
        sequences,
        tiles,
        swizzle,
        total,
        longest,
        group,
        window,
        min_full,
        HEADS,
        LISTED,
        SEGMENTS,
        WINDOW,
        True,
    )
    queue = make_work_queue(3)
    m = Shared(
        make_halves(k_desc, P),
        make_halves(v_desc, P),
        make_barriers(1, 1),
        make_barriers(1, 3),
        make_ring(q_desc, STAGES, Q, P, 2),
        make_ring(grad_desc, STAGES, Q, P, 2),
        gl.allocate_shared_memory(q_desc.dtype, [2 * SLOTS, HALF, Q], ds_layout),
        make_barriers(2 * SLOTS, 1),
        make_barriers(SLOTS, 1),
        gl.allocate_shared_memory(gl.float32, [P // WIDTH, Q, 1, WIDTH], dq_desc.layout),
        P,
        Q,
        SLOTS,
    )
    gl.warp_specialize(
        [
            (_of_keys, (m, queue, batch, dk, dv, dk_stride, dv_stride, half, scale, key_scale, D, 0)),
            (_of_keys, (m, queue, batch, dk, dv, dk_stride, dv_stride, half, scale, key_scale, D, 1)),
            (_of_queries, (m, queue, batch, dq_desc, key_scale)),
            (_load, (q_desc, k_desc, v_desc, grad_desc, m, queue, batch)),
        ],
        [4, 4, 1],
        [REGISTERS, 512 - 24 - 2 * REGISTERS, 24],
    )
