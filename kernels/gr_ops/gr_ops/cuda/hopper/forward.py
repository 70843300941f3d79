"""The forward pass on Hopper: a loader warp and two warpgroups of 64 queries each. The product Q K of the next tile of
keys is in flight while that of the weights with V runs and SiLU is taken."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma, warpgroup_mma_wait

from gr_ops.cuda.hopper.batch import NUMBERS, POINTERS, Batch, tanh
from gr_ops.cuda.hopper.relative import TABLES, Relative
from gr_ops.cuda.hopper.ring import Halves, Ring, clear_behind, make_barriers, make_halves, make_ring
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.work_queue import WorkQueue, draw_from, make_work_queue

HALF = gl.constexpr(64)  # queries of a warpgroup


@struct
class Shared:
    q: Halves
    q_full: gl.shared_memory_descriptor
    q_empty: gl.shared_memory_descriptor
    k: Ring
    v: Ring
    P: gl.constexpr
    K: gl.constexpr


@gluon.jit
def _load(q_desc, k_desc, v_desc, m: Shared, queue: WorkQueue, batch: Batch):
    items = batch.how_many()
    number = gl.program_id(0)
    used = 0
    turn = 0
    while number < items:
        item = batch.item(number)
        queue.publish(turn, item)
        keys = batch.key_tiles(item, m.K)
        mbarrier.wait(m.q_empty.index(0), (turn & 1) ^ 1)
        mbarrier.expect(m.q_full.index(0), 2 * HALF * m.P * 2)
        m.q.load(q_desc, item.begin + item.tile * (2 * HALF), item.head, m.q_full.index(0))
        for j in range(keys.masked + keys.unmasked):
            at, end = keys.tile(j)
            m.k.load(used, k_desc, item.begin + at, item.head)
            m.v.load(used, v_desc, item.begin + at, item.head)
            used += 1
        number = draw_from(batch.counter, items)
        turn += 1
    queue.end(turn)


@gluon.jit
def _bias(
    relative: Relative,
    positions,
    code,
    codes,
    own,
    at,
    SEGMENTS: gl.constexpr,
    MASKED: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """What `_halves` adds; to be made while the product runs."""
    if not relative.ON:
        bias = 0
    elif MASKED and not SEGMENTS:  # these tiles are all at the diagonal
        bias = relative.near_bias(positions, codes, own, at, LAYOUT)
    else:
        bias = relative.bias(positions, code, own, at, SEGMENTS, not MASKED, LAYOUT)
    return bias


@gluon.jit
def _halves(
    score,
    half,
    bias,
    relative: Relative,
    code,
    codes,
    item,
    own,
    at,
    SEGMENTS: gl.constexpr,
    MASKED: gl.constexpr,
):
    """Half the scores, with their bias."""
    h = score * half
    if relative.ON:
        if SEGMENTS or not MASKED:
            h = relative.complete(h, bias, code, codes, item, own, at, not MASKED)
        else:
            h += bias
    return h


@gluon.jit
def _weights(h, row, at, end, item, batch: Batch, K: gl.constexpr, MASKED: gl.constexpr):
    """SiLU of the scores, from half of them: 2 h sigmoid(2 h) = h (1 + tanh h)."""
    weight = h * tanh(h) + h
    if MASKED:
        key = at + gl.arange(0, K, gl.SliceLayout(0, h.type.layout))
        found = batch.sees(row[:, None], key[None, :], item)
        if batch.SEGMENTS:
            found = found & (key < end)[None, :]
        weight = gl.where(found, weight, 0.0)
    return weight


@gluon.jit
def _consume(
    m: Shared,
    queue: WorkQueue,
    batch: Batch,
    relative: Relative,
    out,
    out_stride,
    half,
    scale,
    D: gl.constexpr,
    PART: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
):
    dtype: gl.constexpr = m.k.data.dtype
    K: gl.constexpr = m.K
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, K, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=o_layout, k_width=2)
    q_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=s_layout, k_width=2)
    zero = gl.zeros([HALF, K], gl.float32, s_layout)
    # The second tile of keys at the diagonal is behind all queries of the first warpgroup.
    SKIPS: gl.constexpr = PART == 0 and K == HALF and not batch.SEGMENTS
    place = relative.place()
    used = 0
    turn = 0
    item = queue.read(turn)
    while item.tile >= 0:
        first = item.tile * (2 * HALF)
        length = item.length
        keys = batch.key_tiles(item, K)
        own = first + PART * HALF
        row = own + gl.arange(0, HALF, gl.SliceLayout(1, s_layout))
        codes = relative.row_of(item, own)
        q_shared = m.q.matrix(PART)
        acc = gl.zeros([HALF, m.P], gl.float32, o_layout)
        at, end = keys.tile(0)
        code = relative.code(codes, at)
        positions = relative.positions(place, item, own, at, batch.SEGMENTS, s_layout)
        bias = _bias(relative, positions, code, codes, own, at, batch.SEGMENTS, True, s_layout)
        mbarrier.wait(m.q_full.index(0), turn & 1)
        if IN_REGISTERS:
            q = q_shared.load(q_layout)
        else:
            q = q_shared
        stage, phase = m.k.place(used)
        m.k.wait(stage, phase)
        score = warpgroup_mma(q, m.k.matrix(stage).permute((1, 0)), zero, use_acc=False)
        m.k.release(stage)
        h = _halves(score, half, bias, relative, code, codes, item, own, at, batch.SEGMENTS, True)
        weight = _weights(h, row, at, end, item, batch, K, True)
        p = gl.convert_layout(weight.to(dtype), p_layout)
        for j in range(1, 1 if SKIPS else keys.masked):
            m.v.wait(stage, phase)
            v = m.v.matrix(stage)
            clear_behind(v, length - at, K, m.P)
            last_stage = stage
            used += 1
            at, end = keys.tile(j)
            stage, phase = m.k.place(used)
            m.k.wait(stage, phase)
            s_token = warpgroup_mma(q, m.k.matrix(stage).permute((1, 0)), zero, use_acc=False, is_async=True)
            o_token = warpgroup_mma(p, v, acc, is_async=True)
            code = relative.code(codes, at)
            positions = relative.positions(place, item, own, at, batch.SEGMENTS, s_layout)
            bias = _bias(relative, positions, code, codes, own, at, batch.SEGMENTS, True, s_layout)
            score = warpgroup_mma_wait(1, deps=(s_token,))
            m.k.release(stage)
            h = _halves(score, half, bias, relative, code, codes, item, own, at, batch.SEGMENTS, True)
            weight = _weights(h, row, at, end, item, batch, K, True)
            following = gl.convert_layout(weight.to(dtype), p_layout)
            acc, _ = warpgroup_mma_wait(0, deps=(o_token, p))
            m.v.release(last_stage)
            p = following
        if SKIPS:  # noqa: SIM102 (the compiler knows this one)
            if keys.masked > 1:
                used += 1
                unseen, unseen_phase = m.k.place(used)
                m.k.skip(unseen, unseen_phase)
                m.v.skip(unseen, unseen_phase)
        if (at + K > length) & (keys.unmasked > 0):  # the last masked tile may be the row's last
            m.v.wait(stage, phase)
            clear_behind(m.v.matrix(stage), length - at, K, m.P)
        unmasked, _unmasked_end = keys.tile(keys.masked)
        following_code = relative.code(codes, unmasked)
        following_positions = relative.early(place, item, own, unmasked, batch.SEGMENTS)
        for _j in range(keys.unmasked):
            code = following_code
            early = following_positions
            last_stage = stage
            last_phase = phase
            used += 1
            stage, phase = m.k.place(used)
            m.k.wait(stage, phase)
            s_token = warpgroup_mma(q, m.k.matrix(stage).permute((1, 0)), zero, use_acc=False, is_async=True)
            m.v.wait(last_stage, last_phase)
            o_token = warpgroup_mma(p, m.v.matrix(last_stage), acc, is_async=True)
            positions = relative.late(early, place, item, own, unmasked, batch.SEGMENTS, s_layout)
            bias = _bias(relative, positions, code, codes, own, unmasked, batch.SEGMENTS, False, s_layout)
            score = warpgroup_mma_wait(1, deps=(s_token,))
            m.k.release(stage)
            h = _halves(score, half, bias, relative, code, codes, item, own, unmasked, batch.SEGMENTS, False)
            following_code = relative.code(codes, unmasked + K)
            following_positions = relative.early(place, item, own, unmasked + K, batch.SEGMENTS)
            weight = _weights(h, row, 0, 0, item, batch, K, False)
            unmasked += K
            following = gl.convert_layout(weight.to(dtype), p_layout)
            acc, _ = warpgroup_mma_wait(0, deps=(o_token, p))
            m.v.release(last_stage)
            p = following
        mbarrier.arrive(m.q_empty.index(0), count=1)
        m.v.wait(stage, phase)
        v = m.v.matrix(stage)
        if (at + K > length) & (keys.unmasked == 0):
            clear_behind(v, length - at, K, m.P)
        acc = warpgroup_mma(p, v, acc)
        m.v.release(stage)
        used += 1
        layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // m.P, m.P // 8], [4, 1], [1, 0])
        result = gl.convert_layout((acc * scale).to(dtype), layout)
        token = first + PART * HALF + gl.arange(0, HALF, gl.SliceLayout(1, layout))
        column = gl.arange(0, m.P, gl.SliceLayout(0, layout))
        inside = (token < length)[:, None]
        if D != m.P:
            inside = inside & (column < D)[None, :]
        where = (item.begin + token).to(gl.int64)[:, None] * out_stride + item.head * D + column[None, :]
        gl.store(out + where, result, mask=inside)
        turn += 1
        item = queue.read(turn)


@gluon.jit(do_not_specialize=[*NUMBERS, "blocks", "pairs"], do_not_specialize_on_alignment=POINTERS + TABLES)
def forward(
    q_desc,
    k_desc,
    v_desc,
    out,
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
    out_stride,
    band,
    codes,
    blocks,
    pairs,
    LISTED: gl.constexpr,
    HEADS: gl.constexpr,
    D: gl.constexpr,
    P: gl.constexpr,
    K: gl.constexpr,
    STAGES: gl.constexpr,
    SEGMENTS: gl.constexpr,
    WINDOW: gl.constexpr,
    RELATIVE: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
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
        False,
        2 * HALF,
    )
    relative = Relative(
        band,
        codes,
        blocks,
        pairs,
        RELATIVE,
        1,
    )
    queue = make_work_queue(2)
    m = Shared(
        make_halves(q_desc, P),
        make_barriers(1, 1),
        make_barriers(1, 2),
        make_ring(k_desc, STAGES, K, P, 2),
        make_ring(v_desc, STAGES, K, P, 2),
        P,
        K,
    )
    gl.warp_specialize(
        [
            (_consume, (m, queue, batch, relative, out, out_stride, half, scale, D, 0, IN_REGISTERS)),
            (_consume, (m, queue, batch, relative, out, out_stride, half, scale, D, 1, IN_REGISTERS)),
            (_load, (q_desc, k_desc, v_desc, m, queue, batch)),
        ],
        [4, 1],
        [240, 24],
    )
