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
from triton.language.core import _aggregate as aggregate

from gr_ops.cuda.hopper.batch import (
    NUMBERS,
    POINTERS,
    Batch,
    Draw,
    clear_behind,
    draw_from,
    make_barriers,
    make_draw,
    tanh,
)
from gr_ops.cuda.hopper.tile_ranges import query_tile, query_tiles

HALF = gl.constexpr(64)  # keys of a warpgroup
KEYS = 128


@builtin
def tma_add(desc, coord, source, _semantic=None):
    """Adds shared memory to what TMA addresses. Gluon's Python of Triton 3.6 lacks it, its builder has it."""
    coord = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, coord, source.handle)


@aggregate
class Shared:
    k: gl.shared_memory_descriptor  # [2, 64, 1, P]
    v: gl.shared_memory_descriptor
    q: gl.shared_memory_descriptor  # [STAGES, Q, 1, P]
    grad: gl.shared_memory_descriptor
    ds: gl.shared_memory_descriptor  # [2 SLOTS, 64, Q]
    dq: gl.shared_memory_descriptor  # [P / WIDTH, Q, 1, WIDTH] float32
    kv_full: gl.shared_memory_descriptor
    kv_empty: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    q_empty: gl.shared_memory_descriptor
    grad_full: gl.shared_memory_descriptor
    grad_empty: gl.shared_memory_descriptor
    ds_full: gl.shared_memory_descriptor
    ds_empty: gl.shared_memory_descriptor
    P: gl.constexpr
    Q: gl.constexpr
    STAGES: gl.constexpr
    SLOTS: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, k, v, q, grad, ds, dq, kv_full, kv_empty, q_full, q_empty, grad_full, grad_empty, ds_full, ds_empty, P, Q,
        STAGES, SLOTS,
    ):  # fmt: skip
        self.k = k
        self.v = v
        self.q = q
        self.grad = grad
        self.ds = ds
        self.dq = dq
        self.kv_full = kv_full
        self.kv_empty = kv_empty
        self.q_full = q_full
        self.q_empty = q_empty
        self.grad_full = grad_full
        self.grad_empty = grad_empty
        self.ds_full = ds_full
        self.ds_empty = ds_empty
        self.P = gl.constexpr(P)
        self.Q = gl.constexpr(Q)
        self.STAGES = gl.constexpr(STAGES)
        self.SLOTS = gl.constexpr(SLOTS)

    @gluon.jit
    def matrix(self, tile, ROWS: gl.constexpr):
        """[ROWS, 1, P] of TMA's three dimensions as [ROWS, P]."""
        layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, self.P], tile.dtype)
        return tile._reinterpret(tile.dtype, [ROWS, self.P], layout)


@gluon.jit
def _load(q_desc, k_desc, v_desc, grad_desc, m: Shared, draw: Draw, batch: Batch):
    items = batch.how_many()
    number = gl.program_id(0)
    used = 0
    turn = 0
    bytes: gl.constexpr = m.Q * m.P * 2
    while number < items:
        head, tile, begin, length, context, history = batch.item(number)
        draw.publish(turn, tile, head, begin, length, context, history)
        first = tile * (2 * HALF)
        last = gl.minimum(first + 2 * HALF, length) - 1
        start, stop, start_2, stop_2, inner, behind, masked, wholes = query_tiles(
            first, last, length, context, history, batch.group, batch.window, batch.whole, batch.COUNTS, batch.WINDOW,
            m.Q,
        )  # fmt: skip
        for j in range(masked + wholes):
            at, end = query_tile(j, start, stop, start_2, stop_2, inner, behind, masked, batch.COUNTS, m.Q)
            stage = used % m.STAGES
            phase = ((used // m.STAGES) & 1) ^ 1
            mbarrier.wait(m.q_empty.index(stage), phase)
            mbarrier.expect(m.q_full.index(stage), bytes)
            tma.async_copy_global_to_shared(q_desc, [begin + at, head, 0], m.q_full.index(stage), m.q.index(stage))
            if j == 0:  # queries can come while the last item still needs its keys
                mbarrier.wait(m.kv_empty.index(0), (turn & 1) ^ 1)
                mbarrier.expect(m.kv_full.index(0), 4 * HALF * m.P * 2)
                for half in gl.static_range(2):
                    row = begin + first + half * HALF
                    tma.async_copy_global_to_shared(k_desc, [row, head, 0], m.kv_full.index(0), m.k.index(half))
                    tma.async_copy_global_to_shared(v_desc, [row, head, 0], m.kv_full.index(0), m.v.index(half))
            mbarrier.wait(m.grad_empty.index(stage), phase)
            mbarrier.expect(m.grad_full.index(stage), bytes)
            tma.async_copy_global_to_shared(
                grad_desc, [begin + at, head, 0], m.grad_full.index(stage), m.grad.index(stage)
            )
            used += 1
        number = draw_from(batch.counter, items)
        turn += 1
    draw.publish(turn, -1, 0, 0, 0, 0, 0)


@gluon.jit
def _add(dk, dv, m: Shared, batch: Batch, used, at, end, key, length, context, history, half, PART: gl.constexpr,
         MASKED: gl.constexpr):  # fmt: skip
    """What the queries from `at` on add to the gradients of keys and values."""
    dtype: gl.constexpr = m.q.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    g_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    a_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=g_layout, k_width=2)
    zero = gl.zeros([HALF, m.Q], gl.float32, s_layout)
    stage = used % m.STAGES
    phase = (used // m.STAGES) & 1
    slot = used % m.SLOTS
    q = m.matrix(m.q.index(stage), m.Q)
    grad = m.matrix(m.grad.index(stage), m.Q)
    mbarrier.wait(m.q_full.index(stage), phase)
    if MASKED:
        clear_behind(q, length - at, m.Q, m.P)
    score = warpgroup_mma(m.matrix(m.k.index(PART), HALF), q.permute((1, 0)), zero, use_acc=False)
    h = score * half
    t = tanh(h)
    silu = h * t + h
    slope = 0.5 * t + 0.5
    slope = slope + silu * (1.0 - slope)
    if MASKED:
        query = at + gl.arange(0, m.Q, gl.SliceLayout(0, s_layout))
        found = batch.sees(query[None, :], key[:, None], length, context, history) & (query < end)[None, :]
        silu = gl.where(found, silu, 0.0)
        slope = gl.where(found, slope, 0.0)
    slope = slope.to(gl.float16)  # between -0.1 and 1.1: half the registers, an eighth of bfloat16's error
    p = gl.convert_layout(silu.to(dtype), a_layout)
    mbarrier.wait(m.grad_full.index(stage), phase)
    if MASKED:
        clear_behind(grad, length - at, m.Q, m.P)
    p_token = warpgroup_mma(m.matrix(m.v.index(PART), HALF), grad.permute((1, 0)), zero, use_acc=False, is_async=True)
    dv_token = warpgroup_mma(p, grad, dv, is_async=True)
    of_weight = warpgroup_mma_wait(1, deps=(p_token,))
    of_score = of_weight * slope.to(gl.float32)
    if MASKED:
        of_score = gl.where(found, of_score, 0.0)
    of_score = of_score.to(dtype)
    mbarrier.wait(m.ds_empty.index(slot), ((used // m.SLOTS) & 1) ^ 1)
    m.ds.index(slot * 2 + PART).store(of_score)
    fence_async_shared()
    mbarrier.arrive(m.ds_full.index(slot * 2 + PART), count=1)
    a = gl.convert_layout(of_score, a_layout)
    dk_token = warpgroup_mma(a, q, dk, is_async=True)
    dv, _p = warpgroup_mma_wait(1, deps=(dv_token, p))
    mbarrier.arrive(m.grad_empty.index(stage), count=1)
    dk, _a = warpgroup_mma_wait(0, deps=(dk_token, a))
    mbarrier.arrive(m.q_empty.index(stage), count=1)
    return dk, dv


@gluon.jit
def _pass(m: Shared, used, PART: gl.constexpr):
    """A tile of queries that sees none of a warpgroup's keys."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    stage = used % m.STAGES
    phase = (used // m.STAGES) & 1
    slot = used % m.SLOTS
    mbarrier.wait(m.q_full.index(stage), phase)
    mbarrier.arrive(m.q_empty.index(stage), count=1)
    mbarrier.wait(m.grad_full.index(stage), phase)
    mbarrier.arrive(m.grad_empty.index(stage), count=1)
    mbarrier.wait(m.ds_empty.index(slot), ((used // m.SLOTS) & 1) ^ 1)
    m.ds.index(slot * 2 + PART).store(gl.zeros([HALF, m.Q], m.q.dtype, layout))
    fence_async_shared()
    mbarrier.arrive(m.ds_full.index(slot * 2 + PART), count=1)


@gluon.jit
def _of_keys(
    m: Shared, draw: Draw, batch: Batch, dk_out, dv_out, dk_stride, dv_stride, half, scale, key_scale,
    D: gl.constexpr, PART: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = m.q.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    g_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    out_layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // m.P, m.P // 8], [4, 1], [1, 0])
    # The first tile of queries at the diagonal is before all keys of the second warpgroup.
    SKIPS: gl.constexpr = PART == 1 and m.Q == HALF and not batch.COUNTS
    used = 0
    turn = 0
    tile, head, begin, length, context, history = draw.read(turn)
    while tile >= 0:
        first = tile * (2 * HALF)
        last = gl.minimum(first + 2 * HALF, length) - 1
        start, stop, start_2, stop_2, inner, behind, masked, wholes = query_tiles(
            first, last, length, context, history, batch.group, batch.window, batch.whole, batch.COUNTS, batch.WINDOW,
            m.Q,
        )  # fmt: skip
        key = first + PART * HALF + gl.arange(0, HALF, gl.SliceLayout(1, s_layout))
        dk = gl.zeros([HALF, m.P], gl.float32, g_layout)
        dv = gl.zeros([HALF, m.P], gl.float32, g_layout)
        mbarrier.wait(m.kv_full.index(0), turn & 1)
        if SKIPS:
            _pass(m, used, PART)
            used += 1
        for j in range(1 if SKIPS else 0, masked):
            at, end = query_tile(j, start, stop, start_2, stop_2, inner, behind, masked, batch.COUNTS, m.Q)
            end = gl.minimum(end, length)
            dk, dv = _add(dk, dv, m, batch, used, at, end, key, length, context, history, half, PART, True)
            used += 1
        for _ in range(wholes):
            dk, dv = _add(dk, dv, m, batch, used, 0, 0, key, length, context, history, half, PART, False)
            used += 1
        mbarrier.arrive(m.kv_empty.index(0), count=1)
        token = first + PART * HALF + gl.arange(0, HALF, gl.SliceLayout(1, out_layout))
        column = gl.arange(0, m.P, gl.SliceLayout(0, out_layout))
        inside = (token < length)[:, None]
        if D != m.P:
            inside = inside & (column < D)[None, :]
        row = (begin + token).to(gl.int64)[:, None]
        place = head * D + column[None, :]
        of_values = gl.convert_layout((dv * scale).to(dtype), out_layout)
        gl.store(dv_out + row * dv_stride + place, of_values, mask=inside)
        of_keys = gl.convert_layout((dk * key_scale).to(dtype), out_layout)
        gl.store(dk_out + row * dk_stride + place, of_keys, mask=inside)
        turn += 1
        tile, head, begin, length, context, history = draw.read(turn)


@gluon.jit
def _of_queries(m: Shared, draw: Draw, batch: Batch, dq_desc, key_scale):
    """Adds to the gradient of queries what 128 keys contribute, WIDTH columns at a time."""
    WIDTH: gl.constexpr = m.dq.shape[3]
    PARTS: gl.constexpr = m.P // WIDTH
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, WIDTH, 16])
    dq_shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([m.Q, WIDTH], gl.float32)
    zero = gl.zeros([m.Q, WIDTH], gl.float32, layout)
    used = 0
    turn = 0
    tile, head, begin, length, context, history = draw.read(turn)
    while tile >= 0:
        first = tile * (2 * HALF)
        last = gl.minimum(first + 2 * HALF, length) - 1
        start, stop, start_2, stop_2, inner, behind, masked, wholes = query_tiles(
            first, last, length, context, history, batch.group, batch.window, batch.whole, batch.COUNTS, batch.WINDOW,
            m.Q,
        )  # fmt: skip
        mbarrier.wait(m.kv_full.index(0), turn & 1)
        k_0 = m.matrix(m.k.index(0), HALF)
        k_1 = m.matrix(m.k.index(1), HALF)
        clear_behind(k_0, length - first, HALF, m.P)
        clear_behind(k_1, length - first - HALF, HALF, m.P)
        for j in range(masked + wholes):
            at, end = query_tile(j, start, stop, start_2, stop_2, inner, behind, masked, batch.COUNTS, m.Q)
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
                tma_add(dq_desc, [begin + at, head, part * WIDTH], dq_s)
            used += 1
        mbarrier.arrive(m.kv_empty.index(0), count=1)
        turn += 1
        tile, head, begin, length, context, history = draw.read(turn)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def backward(
    q_desc, k_desc, v_desc, grad_desc, dq_desc, dk, dv, offsets, contexts, targets, items, counter, sequences, tiles,
    together, total, longest, group, window, whole, half, scale, key_scale, dk_stride, dv_stride,
    HEADS: gl.constexpr, D: gl.constexpr, P: gl.constexpr, Q: gl.constexpr, STAGES: gl.constexpr, SLOTS: gl.constexpr,
    REGISTERS: gl.constexpr, LISTED: gl.constexpr, COUNTS: gl.constexpr, WINDOW: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    WIDTH: gl.constexpr = dq_desc.block_type.shape[2]
    ds_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HALF, Q], dtype)
    batch = Batch(
        offsets, contexts, targets, items, counter, sequences, tiles, together, total, longest, group, window, whole,
        HEADS, LISTED, COUNTS, WINDOW, True,
    )  # fmt: skip
    draw = make_draw(3)
    m = Shared(
        gl.allocate_shared_memory(dtype, [2, HALF, 1, P], k_desc.layout),
        gl.allocate_shared_memory(dtype, [2, HALF, 1, P], v_desc.layout),
        gl.allocate_shared_memory(dtype, [STAGES, Q, 1, P], q_desc.layout),
        gl.allocate_shared_memory(dtype, [STAGES, Q, 1, P], grad_desc.layout),
        gl.allocate_shared_memory(dtype, [2 * SLOTS, HALF, Q], ds_layout),
        gl.allocate_shared_memory(gl.float32, [P // WIDTH, Q, 1, WIDTH], dq_desc.layout),
        make_barriers(1, 1), make_barriers(1, 3), make_barriers(STAGES, 1), make_barriers(STAGES, 2),
        make_barriers(STAGES, 1), make_barriers(STAGES, 2), make_barriers(2 * SLOTS, 1), make_barriers(SLOTS, 1),
        P, Q, STAGES, SLOTS,
    )  # fmt: skip
    gl.warp_specialize(
        [
            (_of_keys, (m, draw, batch, dk, dv, dk_stride, dv_stride, half, scale, key_scale, D, 0)),
            (_of_keys, (m, draw, batch, dk, dv, dk_stride, dv_stride, half, scale, key_scale, D, 1)),
            (_of_queries, (m, draw, batch, dq_desc, key_scale)),
            (_load, (q_desc, k_desc, v_desc, grad_desc, m, draw, batch)),
        ],
        [4, 4, 1],
        [REGISTERS, 512 - 24 - 2 * REGISTERS, 24],
    )
