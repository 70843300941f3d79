"""The warpgroups of the backward pass that have 64 keys each: scores, and the gradients of keys and values."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma, warpgroup_mma_wait

from gr_ops.cuda.hopper.batch import Batch, tanh
from gr_ops.cuda.hopper.gradient_memory import HALF, Shared
from gr_ops.cuda.hopper.relative import Relative
from gr_ops.cuda.hopper.ring import clear_behind
from gr_ops.cuda.hopper.slopes import Slopes
from gr_ops.cuda.hopper.work_queue import WorkQueue


@gluon.jit
def _add(
    dk,
    dv,
    m: Shared,
    batch: Batch,
    relative: Relative,
    used,
    at,
    end,
    code,
    early,
    codes,
    following_at,
    first,
    place,
    key,
    item,
    turn,
    half,
    PART: gl.constexpr,
    MASKED: gl.constexpr,
):
    """What the queries from `at` on add to the gradients of keys and values."""
    dtype: gl.constexpr = m.q.data.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    g_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    a_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=g_layout, k_width=2)
    zero = gl.zeros([HALF, m.Q], gl.float32, s_layout)
    stage, phase = m.q.place(used)
    q = m.q.matrix(stage)
    grad = m.grad.matrix(stage)
    positions = relative.late(early, place, item, first, at, batch.SEGMENTS, s_layout)
    if relative.ON:
        bias = relative.bias(positions, code, first, at, batch.SEGMENTS, True, s_layout)
    m.q.wait(stage, phase)
    if MASKED:
        clear_behind(q, item.length - at, m.Q, m.P)
    score = warpgroup_mma(m.k.matrix(PART), q.permute((1, 0)), zero, use_acc=False)
    h = score * half
    if relative.ON:
        h = relative.complete(h, bias, code, codes, item, first, at, True)
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
        m.wait_for_values(turn)
    p_token = warpgroup_mma(m.v.matrix(PART), grad.permute((1, 0)), zero, use_acc=False, is_async=True)
    dv_token = warpgroup_mma(p, grad, dv, is_async=True)
    of_weight = warpgroup_mma_wait(1, deps=(p_token,))
    of_score = of_weight * slope.to(gl.float32)
    if MASKED:
        of_score = gl.where(found, of_score, 0.0)
    of_score = of_score.to(dtype)
    m.wait_for_slot(used)
    if relative.ON:
        m.put_about(used, at, relative.bits(code, item, first, at), PART)
    m.put_ds(used, of_score, PART)
    a = gl.convert_layout(of_score, a_layout)
    dk_token = warpgroup_mma(a, q, dk, is_async=True)
    following_code = relative.code(codes, following_at)
    following = relative.early(place, item, first, following_at, batch.SEGMENTS)
    dv, _p = warpgroup_mma_wait(1, deps=(dv_token, p))
    m.grad.release(stage)
    dk, _a = warpgroup_mma_wait(0, deps=(dk_token, a))
    m.q.release(stage)
    return dk, dv, following_code, following


@gluon.jit
def _skip(m: Shared, relative: Relative, used, at, PART: gl.constexpr):
    """A tile of queries that sees none of a warpgroup's keys."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    stage, phase = m.q.place(used)
    m.q.skip(stage, phase)
    m.grad.skip(stage, phase)
    m.wait_for_slot(used)
    if relative.ON:
        m.put_about(used, at, 0, PART)
    m.put_ds(used, gl.zeros([HALF, m.Q], m.q.data.dtype, layout), PART)


@gluon.jit
def of_keys(
    m: Shared,
    queue: WorkQueue,
    batch: Batch,
    relative: Relative,
    dk_out,
    dv_out,
    dk_stride,
    dv_stride,
    k_slopes: Slopes,
    v_slopes: Slopes,
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
    place = relative.place()
    used = 0
    turn = 0
    item = queue.read(turn)
    while item.tile >= 0:
        first = item.tile * (2 * HALF)
        length = item.length
        queries = batch.query_tiles(item, m.Q)
        own = first + PART * HALF
        key = own + gl.arange(0, HALF, gl.SliceLayout(1, s_layout))
        codes = relative.row_of(item, own)
        dk = gl.zeros([HALF, m.P], gl.float32, g_layout)
        dv = gl.zeros([HALF, m.P], gl.float32, g_layout)
        m.wait_for_keys(turn)
        if SKIPS:
            _skip(m, relative, used, first, PART)
            used += 1
        for j in range(1 if SKIPS else 0, queries.masked):
            at, end = queries.tile(j)
            end = gl.minimum(end, length)
            code = relative.code(codes, at)
            early = relative.early(place, item, own, at, batch.SEGMENTS)
            dk, dv, code, early = _add(
                dk,
                dv,
                m,
                batch,
                relative,
                used,
                at,
                end,
                code,
                early,
                codes,
                at,
                own,
                place,
                key,
                item,
                turn,
                half,
                PART,
                True,
            )
            used += 1
        m.wait_for_values(turn)
        at, end = queries.tile(queries.masked)
        code = relative.code(codes, at)
        early = relative.early(place, item, own, at, batch.SEGMENTS)
        for _ in range(queries.unmasked):
            dk, dv, code, early = _add(
                dk,
                dv,
                m,
                batch,
                relative,
                used,
                at,
                end,
                code,
                early,
                codes,
                at + m.Q,
                own,
                place,
                key,
                item,
                turn,
                half,
                PART,
                False,
            )
            at += m.Q
            used += 1
        mbarrier.arrive(m.k_empty.index(0), count=1)
        mbarrier.arrive(m.v_empty.index(0), count=1)
        token = first + PART * HALF + gl.arange(0, HALF, gl.SliceLayout(1, out_layout))
        column = gl.arange(0, m.P, gl.SliceLayout(0, out_layout))
        inside = (token < length)[:, None]
        if D != m.P:
            inside = inside & (column < D)[None, :]
        row = (item.begin + token).to(gl.int64)[:, None]
        offset = item.head * D + column[None, :]
        of_values = v_slopes.times(gl.convert_layout((dv * scale).to(dtype), out_layout), row, offset, inside)
        gl.store(dv_out + row * dv_stride + offset, of_values, mask=inside)
        of_keys = k_slopes.times(gl.convert_layout((dk * key_scale).to(dtype), out_layout), row, offset, inside)
        gl.store(dk_out + row * dk_stride + offset, of_keys, mask=inside)
        turn += 1
        item = queue.read(turn)
