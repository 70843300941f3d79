"""The warpgroups of the backward pass that have 64 keys each: scores, and the gradients of keys and values."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from gr_ops.cuda.hopper.batch import Batch, tanh
from gr_ops.cuda.hopper.gradient_memory import HALF, Shared
from gr_ops.cuda.hopper.relative import Relative
from gr_ops.cuda.hopper.ring import clear_behind
from gr_ops.cuda.hopper.slopes import Slopes
from gr_ops.cuda.hopper.uneven_tiles import follows_diagonals
from gr_ops.cuda.hopper.work_queue import WorkQueue


@gluon.jit
def _made(x):
    """`x`, of 16 bits, before the next wait: the compiler would keep what it is made from, and make it behind."""
    return gl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=x.dtype, is_pure=False, pack=2)


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
    """What the queries from `at` on add to the gradients of keys and values. If not MASKED they are seen by all keys,
    and of a relative bias of one bucket (Relative.is_plain), whose `code` and `early` the tile before has asked for."""
    dtype: gl.constexpr = m.q.data.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    g_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    a_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=g_layout, k_width=2)
    zero = gl.zeros([HALF, m.Q], gl.float32, s_layout)
    stage, phase = m.q.place(used)
    q = m.q.matrix(stage)
    grad = m.grad.matrix(stage)
    if relative.ON:
        if MASKED:
            bias = relative.whole(place, code, codes, item, first, at, batch.SEGMENTS, s_layout)
        else:
            bias = relative.plain(early, code, codes, item, first, at, s_layout)
    m.q.wait(stage, phase)
    if MASKED:
        clear_behind(q, item.length - at, m.Q, m.P)
    if relative.ON:
        score = warpgroup_mma(m.k.matrix(PART), q.permute((1, 0)), bias)
    else:
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
    slope = _made(slope.to(gl.float16))  # between -0.1 and 1.1: half the registers, an eighth of bfloat16's error
    p = gl.convert_layout(_made(silu.to(dtype)), a_layout)
    if relative.ON:  # the bias has taken the slope's registers
        m.wait_for_slot(used)
        m.keep_slope(used, slope, PART)
    m.grad.wait(stage, phase)
    if MASKED:
        clear_behind(grad, item.length - at, m.Q, m.P)
        m.wait_for_values(turn)
    p_token = warpgroup_mma(m.v.matrix(PART), grad.permute((1, 0)), zero, use_acc=False, is_async=True)
    dv_token = warpgroup_mma(p, grad, dv, is_async=True)
    of_weight = warpgroup_mma_wait(1, deps=(p_token,))
    if relative.ON:
        slope = m.slope(used, PART, s_layout)
    of_score = of_weight * slope.to(gl.float32)
    if MASKED:
        of_score = gl.where(found, of_score, 0.0)
    of_score = of_score.to(dtype)
    if not relative.ON:
        m.wait_for_slot(used)
    if relative.ON:
        if MASKED:
            bits = relative.bits(code, item, first, at)
        else:
            bits = relative.plain_bits(code)
        distance = at - (first - PART * HALF)
        if MASKED:
            distance += gl.where(follows_diagonals(item, first - PART * HALF, at, batch.SEGMENTS), 0, 1)
        m.put_about(used, distance, bits, PART)
    m.put_ds(used, of_score, PART)
    a = gl.convert_layout(of_score, a_layout)
    dk_token = warpgroup_mma(a, q, dk, is_async=True)
    following_code = relative.code(codes, following_at)
    if MASKED:
        following = 0
    else:
        following = relative.pairs_at(place, first, following_at)
    dv, _p = warpgroup_mma_wait(1, deps=(dv_token, p))
    m.grad.release(stage)
    dk, _a = warpgroup_mma_wait(0, deps=(dk_token, a))
    m.q.release(stage)
    return dk, dv, following_code, following


@gluon.jit
def _skip(m: Shared, relative: Relative, used, PART: gl.constexpr):
    """A tile of queries that sees none of a warpgroup's keys."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.Q, 16])
    stage, phase = m.q.place(used)
    m.q.skip(stage, phase)
    m.grad.skip(stage, phase)
    m.wait_for_slot(used)
    if relative.ON:
        m.put_about(used, 0, 0, PART)
    m.put_ds(used, gl.zeros([HALF, m.Q], m.q.data.dtype, layout), PART)


@gluon.jit
def _by_rows(m: Shared, x, relative: Relative, LAYOUT: gl.constexpr, PART: gl.constexpr):
    """[64, P] in another layout. With a relative bias by way of the values, which are no longer needed: what it spills
    and reads of tables wants an L1 cache of 60 KB, not 28, which memory for this alone would take."""
    if relative.ON:
        memory = m.v.matrix(PART)
        gl.thread_barrier()  # after all warps' products
        memory.store(x)
        out = memory.load(LAYOUT)
    else:
        out = gl.convert_layout(x, LAYOUT)
    return out


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
            _skip(m, relative, used, PART)
            used += 1
        tiles = queries.masked + queries.unmasked
        j = 1 if SKIPS else 0
        while j < tiles:
            at, end = queries.tile(j)
            end = gl.minimum(end, length)
            code = relative.code(codes, at)
            if (j >= queries.masked) & relative.is_plain(code, item, own, at, batch.SEGMENTS):
                early = relative.pairs_at(place, own, at)
                plain = j < tiles
                while plain:
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
                    j += 1
                    plain = (j < tiles) & relative.is_plain(code, item, own, at, batch.SEGMENTS)
            else:
                dk, dv, _code, _early = _add(
                    dk,
                    dv,
                    m,
                    batch,
                    relative,
                    used,
                    at,
                    end,
                    code,
                    0,
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
                j += 1
        mbarrier.arrive(m.k_empty.index(0), count=1)
        if not relative.ON:
            mbarrier.arrive(m.v_empty.index(0), count=1)
        token = first + PART * HALF + gl.arange(0, HALF, gl.SliceLayout(1, out_layout))
        column = gl.arange(0, m.P, gl.SliceLayout(0, out_layout))
        inside = (token < length)[:, None]
        if D != m.P:
            inside = inside & (column < D)[None, :]
        row = (item.begin + token).to(gl.int64)[:, None]
        offset = item.head * D + column[None, :]
        of_values = v_slopes.times(_by_rows(m, (dv * scale).to(dtype), relative, out_layout, PART), row, offset, inside)
        gl.store(dv_out + row * dv_stride + offset, of_values, mask=inside)
        of_keys = k_slopes.times(_by_rows(m, (dk * key_scale).to(dtype), relative, out_layout, PART), row, offset, inside)
        gl.store(dk_out + row * dk_stride + offset, of_keys, mask=inside)
        if relative.ON:
            fence_async_shared()
            mbarrier.arrive(m.v_empty.index(0), count=1)
        turn += 1
        item = queue.read(turn)
    if relative.ON:
        m.end(used, PART)
