"""The gradients of keys and values of heads wider than 128 on Hopper: four products a tile.

A program has 64 keys of one head. The gradients of its keys and of its values, 64 x 256 numbers each, fill the
registers of a warpgroup each: that of values takes the scores and passes their slopes on to that of keys. A warp loads.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from gr_ops.cuda.hopper.batch import NUMBERS, POINTERS, Batch, tanh
from gr_ops.cuda.hopper.gradient_memory import HALF
from gr_ops.cuda.hopper.ring import Ring, clear_behind, make_barriers, make_ring, matrix
from gr_ops.cuda.hopper.slopes import Slopes
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.wide import in_runs, store
from gr_ops.cuda.hopper.work_queue import WorkQueue, draw_from, make_work_queue


@struct
class Shared:
    k: gl.shared_memory_descriptor  # [64, 1, P]
    v: gl.shared_memory_descriptor
    own_full: gl.shared_memory_descriptor  # of keys, and of values: each has one reader
    own_empty: gl.shared_memory_descriptor
    q: Ring
    grad: Ring
    slopes: gl.shared_memory_descriptor  # [SLOTS, 64, Q]
    slopes_full: gl.shared_memory_descriptor
    slopes_empty: gl.shared_memory_descriptor
    P: gl.constexpr
    Q: gl.constexpr
    SLOTS: gl.constexpr
    DTYPE: gl.constexpr

    @gluon.jit
    def load_own(self, which: gl.constexpr, desc, to, turn, row, head):
        mbarrier.wait(self.own_empty.index(which), (turn & 1) ^ 1)
        mbarrier.expect(self.own_full.index(which), HALF * self.P * 2)
        tma.async_copy_global_to_shared(desc, [row, head, 0], self.own_full.index(which), to)

    @gluon.jit
    def put_slope(self, used, values):
        slot = used % self.SLOTS
        mbarrier.wait(self.slopes_empty.index(slot), ((used // self.SLOTS) & 1) ^ 1)
        self.slopes.index(slot).store(values)
        mbarrier.arrive(self.slopes_full.index(slot), count=1)

    @gluon.jit
    def take_slope(self, used, LAYOUT: gl.constexpr):
        slot = used % self.SLOTS
        mbarrier.wait(self.slopes_full.index(slot), (used // self.SLOTS) & 1)
        slope = self.slopes.index(slot).load(LAYOUT)
        mbarrier.arrive(self.slopes_empty.index(slot), count=1)
        return slope


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
            at, _end = queries.tile(j)
            m.q.load(used, q_desc, item.begin + at, item.head)
            if j == 0:  # queries can come while the last item still needs its keys
                first = item.begin + item.tile * HALF
                m.load_own(0, k_desc, m.k, turn, first, item.head)
                m.load_own(1, v_desc, m.v, turn, first, item.head)
            m.grad.load(used, grad_desc, item.begin + at, item.head)
            used += 1
        number = draw_from(batch.counter, items)
        turn += 1
    queue.end(turn)


@gluon.jit
def _weights(
    m: Shared, batch: Batch, item, score, used, at, end, key, half, MASKED: gl.constexpr, LAYOUT: gl.constexpr
):
    """SiLU of the scores, for a product from registers; its slope goes to the warpgroup of the keys' gradient."""
    h = score * half
    t = tanh(h)
    silu = h * t + h
    slope = 0.5 * t + 0.5
    slope = slope + silu * (1.0 - slope)
    if MASKED:
        query = at + gl.arange(0, m.Q, gl.SliceLayout(0, score.type.layout))
        found = batch.sees(query[None, :], key[:, None], item) & (query < end)[None, :]
        silu = gl.where(found, silu, 0.0)
    m.put_slope(used, slope.to(gl.float16))  # between -0.1 and 1.1: an eighth of bfloat16's error
    return gl.convert_layout(silu.to(m.DTYPE), LAYOUT)


@gluon.jit
def _of_values(
    m: Shared, queue: WorkQueue, batch: Batch, dv_out, dv_stride, slopes: Slopes, half, scale, D: gl.constexpr
):
    """Scores, and the gradient of values."""
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    g_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    a_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=g_layout, k_width=2)
    zero = gl.zeros([HALF, m.Q], gl.float32, s_layout)
    k = matrix(m.k, HALF, m.P)
    used = 0
    turn = 0
    item = queue.read(turn)
    while item.tile >= 0:
        queries = batch.query_tiles(item, m.Q)
        key = item.tile * HALF + gl.arange(0, HALF, gl.SliceLayout(1, s_layout))
        dv = gl.zeros([HALF, m.P], gl.float32, g_layout)
        mbarrier.wait(m.own_full.index(0), turn & 1)
        for j in range(queries.masked):
            at, end = queries.tile(j)
            stage, phase = m.q.place(used)
            m.q.wait(stage, phase)
            score = warpgroup_mma(k, m.q.matrix(stage).permute((1, 0)), zero, use_acc=False)
            m.q.release(stage)
            p = _weights(m, batch, item, score, used, at, gl.minimum(end, item.length), key, half, True, a_layout)
            m.grad.wait(stage, phase)
            grad = m.grad.matrix(stage)
            clear_behind(grad, item.length - at, m.Q, m.P)
            dv = warpgroup_mma(p, grad, dv)
            m.grad.release(stage)
            used += 1
        if queries.unmasked > 0:
            stage, phase = m.q.place(used)
            m.q.wait(stage, phase)
            score = warpgroup_mma(k, m.q.matrix(stage).permute((1, 0)), zero, use_acc=False)
            m.q.release(stage)
            p = _weights(m, batch, item, score, used, 0, 0, key, half, False, a_layout)
            for _ in range(1, queries.unmasked):
                last_stage = stage
                last_phase = phase
                used += 1
                stage, phase = m.q.place(used)
                m.q.wait(stage, phase)
                s_token = warpgroup_mma(k, m.q.matrix(stage).permute((1, 0)), zero, use_acc=False, is_async=True)
                m.grad.wait(last_stage, last_phase)
                dv_token = warpgroup_mma(p, m.grad.matrix(last_stage), dv, is_async=True)
                score = warpgroup_mma_wait(1, deps=(s_token,))
                m.q.release(stage)
                following = _weights(m, batch, item, score, used, 0, 0, key, half, False, a_layout)
                dv, _p = warpgroup_mma_wait(0, deps=(dv_token, p))
                m.grad.release(last_stage)
                p = following
            mbarrier.arrive(m.own_empty.index(0), count=1)
            m.grad.wait(stage, phase)
            dv = warpgroup_mma(p, m.grad.matrix(stage), dv)
            m.grad.release(stage)
            used += 1
        else:
            mbarrier.arrive(m.own_empty.index(0), count=1)
        store(dv_out, in_runs((dv * scale).to(m.DTYPE), m.P), dv_stride, slopes, item, item.tile * HALF, D, m.P)
        turn += 1
        item = queue.read(turn)


@gluon.jit
def _of_score(m: Shared, used, of_weight, LAYOUT: gl.constexpr):
    layout: gl.constexpr = of_weight.type.layout
    return gl.convert_layout((of_weight * m.take_slope(used, layout).to(gl.float32)).to(m.DTYPE), LAYOUT)


@gluon.jit
def _of_keys(m: Shared, queue: WorkQueue, batch: Batch, dk_out, dk_stride, slopes: Slopes, key_scale, D: gl.constexpr):
    """The gradient of scores, and that of keys."""
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    g_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    a_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=g_layout, k_width=2)
    zero = gl.zeros([HALF, m.Q], gl.float32, s_layout)
    v = matrix(m.v, HALF, m.P)
    used = 0
    turn = 0
    item = queue.read(turn)
    while item.tile >= 0:
        queries = batch.query_tiles(item, m.Q)
        key = item.tile * HALF + gl.arange(0, HALF, gl.SliceLayout(1, s_layout))
        dk = gl.zeros([HALF, m.P], gl.float32, g_layout)
        mbarrier.wait(m.own_full.index(1), turn & 1)
        for j in range(queries.masked):
            at, end = queries.tile(j)
            stage, phase = m.q.place(used)
            m.grad.wait(stage, phase)
            of_weight = warpgroup_mma(v, m.grad.matrix(stage).permute((1, 0)), zero, use_acc=False)
            m.grad.release(stage)
            query = at + gl.arange(0, m.Q, gl.SliceLayout(0, s_layout))
            found = batch.sees(query[None, :], key[:, None], item) & (query < gl.minimum(end, item.length))[None, :]
            of_score = of_weight * m.take_slope(used, s_layout).to(gl.float32)
            a = gl.convert_layout(gl.where(found, of_score, 0.0).to(m.DTYPE), a_layout)
            m.q.wait(stage, phase)
            q = m.q.matrix(stage)
            clear_behind(q, item.length - at, m.Q, m.P)
            dk = warpgroup_mma(a, q, dk)
            m.q.release(stage)
            used += 1
        if queries.unmasked > 0:
            stage, phase = m.q.place(used)
            m.grad.wait(stage, phase)
            of_weight = warpgroup_mma(v, m.grad.matrix(stage).permute((1, 0)), zero, use_acc=False)
            m.grad.release(stage)
            a = _of_score(m, used, of_weight, a_layout)
            for _ in range(1, queries.unmasked):
                last_stage = stage
                used += 1
                stage, phase = m.q.place(used)
                m.grad.wait(stage, phase)
                token = warpgroup_mma(v, m.grad.matrix(stage).permute((1, 0)), zero, use_acc=False, is_async=True)
                # The scores, which are the other warpgroup's, came from these queries: they are there.
                dk_token = warpgroup_mma(a, m.q.matrix(last_stage), dk, is_async=True)
                of_weight = warpgroup_mma_wait(1, deps=(token,))
                m.grad.release(stage)
                following = _of_score(m, used, of_weight, a_layout)
                dk, _a = warpgroup_mma_wait(0, deps=(dk_token, a))
                m.q.release(last_stage)
                a = following
            mbarrier.arrive(m.own_empty.index(1), count=1)
            dk = warpgroup_mma(a, m.q.matrix(stage), dk)
            m.q.release(stage)
            used += 1
        else:
            mbarrier.arrive(m.own_empty.index(1), count=1)
        store(dk_out, in_runs((dk * key_scale).to(m.DTYPE), m.P), dk_stride, slopes, item, item.tile * HALF, D, m.P)
        turn += 1
        item = queue.read(turn)


@gluon.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def backward_of_keys(
    q_desc,
    k_desc,
    v_desc,
    grad_desc,
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
    k_codes,
    v_codes,
    codes_stride,
    LISTED: gl.constexpr,
    HEADS: gl.constexpr,
    D: gl.constexpr,
    P: gl.constexpr,
    Q: gl.constexpr,
    STAGES: gl.constexpr,
    SLOTS: gl.constexpr,
    SEGMENTS: gl.constexpr,
    WINDOW: gl.constexpr,
    SLOPED: gl.constexpr,
):
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
        HALF,
    )
    queue = make_work_queue(2)
    slope_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HALF, Q], gl.float16)
    m = Shared(
        gl.allocate_shared_memory(k_desc.dtype, [HALF, 1, P], k_desc.layout),
        gl.allocate_shared_memory(v_desc.dtype, [HALF, 1, P], v_desc.layout),
        make_barriers(2, 1),
        make_barriers(2, 1),
        make_ring(q_desc, STAGES, Q, P, 2),
        make_ring(grad_desc, STAGES, Q, P, 2),
        gl.allocate_shared_memory(gl.float16, [SLOTS, HALF, Q], slope_layout),
        make_barriers(SLOTS, 1),
        make_barriers(SLOTS, 1),
        P,
        Q,
        SLOTS,
        q_desc.dtype,
    )
    gl.warp_specialize(
        [
            (_of_values, (m, queue, batch, dv, dv_stride, Slopes(v_codes, codes_stride, SLOPED), half, scale, D)),
            (_of_keys, (m, queue, batch, dk, dk_stride, Slopes(k_codes, codes_stride, SLOPED), key_scale, D)),
            (_load, (q_desc, k_desc, v_desc, grad_desc, m, queue, batch)),
        ],
        [4, 1],
        [240, 24],
    )
