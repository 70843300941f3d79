"""The forward pass on Hopper: a loader warp and two warpgroups of 64 queries each.

The product Q K of the next tile of keys is in flight while that of the weights with V runs and SiLU is taken.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
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
from gr_ops.cuda.hopper.tile_ranges import key_tile, key_tiles

HALF = gl.constexpr(64)  # queries of a warpgroup
QUERIES = 128


@aggregate
class Shared:
    q: gl.shared_memory_descriptor  # [2, 64, P]
    k: gl.shared_memory_descriptor  # [STAGES, K, P]
    v: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    q_empty: gl.shared_memory_descriptor
    k_full: gl.shared_memory_descriptor
    k_empty: gl.shared_memory_descriptor
    v_full: gl.shared_memory_descriptor
    v_empty: gl.shared_memory_descriptor
    P: gl.constexpr
    K: gl.constexpr
    STAGES: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, q, k, v, q_full, q_empty, k_full, k_empty, v_full, v_empty, P, K, STAGES):
        self.q = q
        self.k = k
        self.v = v
        self.q_full = q_full
        self.q_empty = q_empty
        self.k_full = k_full
        self.k_empty = k_empty
        self.v_full = v_full
        self.v_empty = v_empty
        self.P = gl.constexpr(P)
        self.K = gl.constexpr(K)
        self.STAGES = gl.constexpr(STAGES)

    @gluon.jit
    def matrix(self, tile, ROWS: gl.constexpr):
        """[ROWS, 1, P] of TMA's three dimensions as [ROWS, P]."""
        layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, self.P], tile.dtype)
        return tile._reinterpret(tile.dtype, [ROWS, self.P], layout)


@gluon.jit
def _load(q_desc, k_desc, v_desc, m: Shared, draw: Draw, batch: Batch):
    items = batch.how_many()
    number = gl.program_id(0)
    used = 0
    turn = 0
    bytes: gl.constexpr = m.K * m.P * 2
    while number < items:
        head, tile, begin, length, context, history = batch.item(number)
        draw.publish(turn, tile, head, begin, length, context, history)
        first = tile * (2 * HALF)
        last = gl.minimum(first + 2 * HALF, length) - 1
        edge, stop, start_2, stop_2, start, inner, masked, wholes = key_tiles(
            first, last, length, context, history, batch.group, batch.window, batch.whole, batch.COUNTS, batch.WINDOW,
            m.K,
        )  # fmt: skip
        mbarrier.wait(m.q_empty.index(0), (turn & 1) ^ 1)
        mbarrier.expect(m.q_full.index(0), 2 * HALF * m.P * 2)
        tma.async_copy_global_to_shared(q_desc, [begin + first, head, 0], m.q_full.index(0), m.q.index(0))
        tma.async_copy_global_to_shared(q_desc, [begin + first + HALF, head, 0], m.q_full.index(0), m.q.index(1))
        for j in range(masked + wholes):
            at, end = key_tile(j, edge, stop, start_2, stop_2, start, inner, masked, batch.COUNTS, m.K)
            stage = used % m.STAGES
            phase = ((used // m.STAGES) & 1) ^ 1
            mbarrier.wait(m.k_empty.index(stage), phase)
            mbarrier.expect(m.k_full.index(stage), bytes)
            tma.async_copy_global_to_shared(k_desc, [begin + at, head, 0], m.k_full.index(stage), m.k.index(stage))
            mbarrier.wait(m.v_empty.index(stage), phase)
            mbarrier.expect(m.v_full.index(stage), bytes)
            tma.async_copy_global_to_shared(v_desc, [begin + at, head, 0], m.v_full.index(stage), m.v.index(stage))
            used += 1
        number = draw_from(batch.counter, items)
        turn += 1
    draw.publish(turn, -1, 0, 0, 0, 0, 0)


@gluon.jit
def _weights(score, row, at, end, length, context, history, half, batch: Batch, K: gl.constexpr, MASKED: gl.constexpr):
    """SiLU of the scores: 2 h sigmoid(2 h) = h (1 + tanh h)."""
    h = score * half
    weight = h * tanh(h) + h
    if MASKED:
        key = at + gl.arange(0, K, gl.SliceLayout(0, score.type.layout))
        found = batch.sees(row[:, None], key[None, :], length, context, history)
        if batch.COUNTS:
            found = found & (key < end)[None, :]
        weight = gl.where(found, weight, 0.0)
    return weight


@gluon.jit
def _consume(
    m: Shared, draw: Draw, batch: Batch, out, out_stride, half, scale, D: gl.constexpr, PART: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = m.q.dtype
    K: gl.constexpr = m.K
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, K, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=o_layout, k_width=2)
    q_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=s_layout, k_width=2)
    zero = gl.zeros([HALF, K], gl.float32, s_layout)
    # The second tile of keys at the diagonal is behind all queries of the first warpgroup.
    SKIPS: gl.constexpr = PART == 0 and K == HALF and not batch.COUNTS
    used = 0
    turn = 0
    tile, head, begin, length, context, history = draw.read(turn)
    while tile >= 0:
        first = tile * (2 * HALF)
        last = gl.minimum(first + 2 * HALF, length) - 1
        edge, stop, start_2, stop_2, start, inner, masked, wholes = key_tiles(
            first, last, length, context, history, batch.group, batch.window, batch.whole, batch.COUNTS, batch.WINDOW,
            K,
        )  # fmt: skip
        row = first + PART * HALF + gl.arange(0, HALF, gl.SliceLayout(1, s_layout))
        q_s = m.matrix(m.q.index(PART), HALF)
        acc = gl.zeros([HALF, m.P], gl.float32, o_layout)
        mbarrier.wait(m.q_full.index(0), turn & 1)
        if IN_REGISTERS:
            q = q_s.load(q_layout)
        else:
            q = q_s
        at, end = key_tile(0, edge, stop, start_2, stop_2, start, inner, masked, batch.COUNTS, K)
        stage = used % m.STAGES
        phase = (used // m.STAGES) & 1
        mbarrier.wait(m.k_full.index(stage), phase)
        score = warpgroup_mma(q, m.matrix(m.k.index(stage), K).permute((1, 0)), zero, use_acc=False)
        mbarrier.arrive(m.k_empty.index(stage), count=1)
        weight = _weights(score, row, at, end, length, context, history, half, batch, K, True)
        p = gl.convert_layout(weight.to(dtype), p_layout)
        for j in range(1, 1 if SKIPS else masked):
            mbarrier.wait(m.v_full.index(stage), phase)
            v = m.matrix(m.v.index(stage), K)
            clear_behind(v, length - at, K, m.P)
            last_stage = stage
            used += 1
            at, end = key_tile(j, edge, stop, start_2, stop_2, start, inner, masked, batch.COUNTS, K)
            stage = used % m.STAGES
            phase = (used // m.STAGES) & 1
            mbarrier.wait(m.k_full.index(stage), phase)
            k = m.matrix(m.k.index(stage), K).permute((1, 0))
            s_token = warpgroup_mma(q, k, zero, use_acc=False, is_async=True)
            o_token = warpgroup_mma(p, v, acc, is_async=True)
            score = warpgroup_mma_wait(1, deps=(s_token,))
            mbarrier.arrive(m.k_empty.index(stage), count=1)
            weight = _weights(score, row, at, end, length, context, history, half, batch, K, True)
            following = gl.convert_layout(weight.to(dtype), p_layout)
            acc, _ = warpgroup_mma_wait(0, deps=(o_token, p))
            mbarrier.arrive(m.v_empty.index(last_stage), count=1)
            p = following
        if SKIPS:  # noqa: SIM102 (the compiler knows this one)
            if masked > 1:
                used += 1
                unseen = used % m.STAGES
                unseen_phase = (used // m.STAGES) & 1
                mbarrier.wait(m.k_full.index(unseen), unseen_phase)
                mbarrier.arrive(m.k_empty.index(unseen), count=1)
                mbarrier.wait(m.v_full.index(unseen), unseen_phase)
                mbarrier.arrive(m.v_empty.index(unseen), count=1)
        if (at + K > length) & (wholes > 0):  # the last masked tile may be the row's last
            mbarrier.wait(m.v_full.index(stage), phase)
            clear_behind(m.matrix(m.v.index(stage), K), length - at, K, m.P)
        for _ in range(wholes):
            last_stage = stage
            last_phase = phase
            used += 1
            stage = used % m.STAGES
            phase = (used // m.STAGES) & 1
            mbarrier.wait(m.k_full.index(stage), phase)
            k = m.matrix(m.k.index(stage), K).permute((1, 0))
            s_token = warpgroup_mma(q, k, zero, use_acc=False, is_async=True)
            mbarrier.wait(m.v_full.index(last_stage), last_phase)
            o_token = warpgroup_mma(p, m.matrix(m.v.index(last_stage), K), acc, is_async=True)
            score = warpgroup_mma_wait(1, deps=(s_token,))
            mbarrier.arrive(m.k_empty.index(stage), count=1)
            weight = _weights(score, row, 0, 0, length, context, history, half, batch, K, False)
            following = gl.convert_layout(weight.to(dtype), p_layout)
            acc, _ = warpgroup_mma_wait(0, deps=(o_token, p))
            mbarrier.arrive(m.v_empty.index(last_stage), count=1)
            p = following
        mbarrier.arrive(m.q_empty.index(0), count=1)
        mbarrier.wait(m.v_full.index(stage), phase)
        v = m.matrix(m.v.index(stage), K)
        if (at + K > length) & (wholes == 0):
            clear_behind(v, length - at, K, m.P)
        acc = warpgroup_mma(p, v, acc)
        mbarrier.arrive(m.v_empty.index(stage), count=1)
        used += 1
        layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // m.P, m.P // 8], [4, 1], [1, 0])
        result = gl.convert_layout((acc * scale).to(dtype), layout)
        token = first + PART * HALF + gl.arange(0, HALF, gl.SliceLayout(1, layout))
        column = gl.arange(0, m.P, gl.SliceLayout(0, layout))
        inside = (token < length)[:, None]
        if D != m.P:
            inside = inside & (column < D)[None, :]
        where = (begin + token).to(gl.int64)[:, None] * out_stride + head * D + column[None, :]
        gl.store(out + where, result, mask=inside)
        turn += 1
        tile, head, begin, length, context, history = draw.read(turn)


@gluon.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def forward(
    q_desc, k_desc, v_desc, out, offsets, contexts, targets, items, counter, sequences, tiles, together, total, longest,
    group, window, whole, half, scale, out_stride, HEADS: gl.constexpr, D: gl.constexpr, P: gl.constexpr,
    K: gl.constexpr, STAGES: gl.constexpr, LISTED: gl.constexpr, COUNTS: gl.constexpr, WINDOW: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    batch = Batch(
        offsets, contexts, targets, items, counter, sequences, tiles, together, total, longest, group, window, whole,
        HEADS, LISTED, COUNTS, WINDOW, False,
    )  # fmt: skip
    draw = make_draw(2)
    m = Shared(
        gl.allocate_shared_memory(dtype, [2, HALF, 1, P], q_desc.layout),
        gl.allocate_shared_memory(dtype, [STAGES, K, 1, P], k_desc.layout),
        gl.allocate_shared_memory(dtype, [STAGES, K, 1, P], v_desc.layout),
        make_barriers(1, 1), make_barriers(1, 2), make_barriers(STAGES, 1), make_barriers(STAGES, 2),
        make_barriers(STAGES, 1), make_barriers(STAGES, 2), P, K, STAGES,
    )  # fmt: skip
    gl.warp_specialize(
        [
            (_consume, (m, draw, batch, out, out_stride, half, scale, D, 0, IN_REGISTERS)),
            (_consume, (m, draw, batch, out, out_stride, half, scale, D, 1, IN_REGISTERS)),
            (_load, (q_desc, k_desc, v_desc, m, draw, batch)),
        ],
        [4, 1],
        [240, 24],
    )
