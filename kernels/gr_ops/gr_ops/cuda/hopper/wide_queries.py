"""The gradient of queries of heads wider than 128 on Hopper: a loader warp and two warpgroups of 64 queries each, which
go through the keys that they see, as the forward pass does. Three products a tile, and nothing is added in memory."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from gr_ops.cuda.hopper.batch import NUMBERS, POINTERS, Batch
from gr_ops.cuda.hopper.gradient_memory import HALF
from gr_ops.cuda.hopper.ring import Halves, Ring, clear_behind, make_barriers, make_halves, make_ring
from gr_ops.cuda.hopper.slopes import Slopes
from gr_ops.cuda.hopper.structs import struct
from gr_ops.cuda.hopper.wide import slope_of, store
from gr_ops.cuda.hopper.work_queue import WorkQueue, draw_from, make_work_queue


@struct
class Shared:
    q: Halves
    grad: Halves
    own_full: gl.shared_memory_descriptor  # of both halves of q, and of both of grad: each has one reader
    own_empty: gl.shared_memory_descriptor
    tiles: Ring  # of keys and of values, in turns
    P: gl.constexpr
    K: gl.constexpr
    DTYPE: gl.constexpr

    @gluon.jit
    def load_own(self, which: gl.constexpr, desc, to, turn, row, head):
        mbarrier.wait(self.own_empty.index(which), (turn & 1) ^ 1)
        mbarrier.expect(self.own_full.index(which), HALF * self.P * 2)
        tma.async_copy_global_to_shared(desc, [row, head, 0], self.own_full.index(which), to)


@gluon.jit
def _load(q_desc, k_desc, v_desc, grad_desc, m: Shared, queue: WorkQueue, batch: Batch):
    items = batch.how_many()
    number = gl.program_id(0)
    used = 0
    turn = 0
    while number < items:
        item = batch.item(number)
        queue.publish(turn, item)
        keys = batch.key_tiles(item, m.K)
        for j in range(keys.masked + keys.unmasked):
            at, _end = keys.tile(j)
            m.tiles.load(used, k_desc, item.begin + at, item.head)
            if j == 0:
                first = item.begin + item.tile * (2 * HALF)
                for part in gl.static_range(2):
                    m.load_own(part, q_desc, m.q.data.index(part), turn, first + part * HALF, item.head)
                for part in gl.static_range(2):
                    m.load_own(2 + part, grad_desc, m.grad.data.index(part), turn, first + part * HALF, item.head)
            m.tiles.load(used + 1, v_desc, item.begin + at, item.head)
            used += 2
        number = draw_from(batch.counter, items)
        turn += 1
    queue.end(turn)


@gluon.jit
def _of_score(m: Shared, used, slope, found, PART: gl.constexpr, MASKED: gl.constexpr, LAYOUT: gl.constexpr):
    """The gradient of scores, for a product from registers."""
    stage, phase = m.tiles.place(used + 1)
    m.tiles.wait(stage, phase)
    layout: gl.constexpr = slope.type.layout
    zero = gl.zeros([HALF, m.K], gl.float32, layout)
    of_weight = warpgroup_mma(m.grad.matrix(PART), m.tiles.matrix(stage).permute((1, 0)), zero, use_acc=False)
    m.tiles.release(stage)
    of_score = of_weight * slope.to(gl.float32)
    if MASKED:
        of_score = gl.where(found, of_score, 0.0)
    return gl.convert_layout(of_score.to(m.DTYPE), LAYOUT)


@gluon.jit
def _of_queries(
    m: Shared,
    queue: WorkQueue,
    batch: Batch,
    dq_out,
    dq_stride,
    slopes: Slopes,
    half,
    key_scale,
    D: gl.constexpr,
    PART: gl.constexpr,
):
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.K, 16])
    g_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, m.P, 16])
    a_layout: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=g_layout, k_width=2)
    zero = gl.zeros([HALF, m.K], gl.float32, s_layout)
    q = m.q.matrix(PART)
    # The second tile of keys at the diagonal is behind all queries of the first warpgroup.
    SKIPS: gl.constexpr = PART == 0 and m.K == HALF and not batch.SEGMENTS
    used = 0
    turn = 0
    item = queue.read(turn)
    while item.tile >= 0:
        keys = batch.key_tiles(item, m.K)
        own = item.tile * (2 * HALF) + PART * HALF
        row = own + gl.arange(0, HALF, gl.SliceLayout(1, s_layout))
        dq = gl.zeros([HALF, m.P], gl.float32, g_layout)
        mbarrier.wait(m.own_full.index(PART), turn & 1)
        for j in range(gl.minimum(keys.masked, 1) if SKIPS else keys.masked):
            at, end = keys.tile(j)
            stage, phase = m.tiles.place(used)
            m.tiles.wait(stage, phase)
            k = m.tiles.matrix(stage)
            clear_behind(k, item.length - at, m.K, m.P)
            score = warpgroup_mma(q, k.permute((1, 0)), zero, use_acc=False)
            key = at + gl.arange(0, m.K, gl.SliceLayout(0, s_layout))
            found = batch.sees(row[:, None], key[None, :], item)
            if batch.SEGMENTS:
                found = found & (key < end)[None, :]
            mbarrier.wait(m.own_full.index(2 + PART), turn & 1)
            a = _of_score(m, used, slope_of(score, half), found, PART, True, a_layout)
            dq = warpgroup_mma(a, k, dq)
            m.tiles.release(stage)
            used += 2
        if SKIPS:  # noqa: SIM102 (the compiler knows this one)
            if keys.masked > 1:
                for part in gl.static_range(2):
                    unseen, unseen_phase = m.tiles.place(used + part)
                    m.tiles.skip(unseen, unseen_phase)
                used += 2
        if keys.unmasked > 0:
            stage, phase = m.tiles.place(used)
            m.tiles.wait(stage, phase)
            score = warpgroup_mma(q, m.tiles.matrix(stage).permute((1, 0)), zero, use_acc=False)
            slope = slope_of(score, half)
            mbarrier.wait(m.own_full.index(2 + PART), turn & 1)
            for _ in range(1, keys.unmasked):
                a = _of_score(m, used, slope, 0, PART, False, a_layout)
                last_stage = stage
                used += 2
                stage, phase = m.tiles.place(used)
                m.tiles.wait(stage, phase)
                s_token = warpgroup_mma(q, m.tiles.matrix(stage).permute((1, 0)), zero, use_acc=False, is_async=True)
                dq_token = warpgroup_mma(a, m.tiles.matrix(last_stage), dq, is_async=True)
                score = warpgroup_mma_wait(1, deps=(s_token,))
                slope = slope_of(score, half)
                dq, _a = warpgroup_mma_wait(0, deps=(dq_token, a))
                m.tiles.release(last_stage)
            mbarrier.arrive(m.own_empty.index(PART), count=1)
            a = _of_score(m, used, slope, 0, PART, False, a_layout)
            dq = warpgroup_mma(a, m.tiles.matrix(stage), dq)
            m.tiles.release(stage)
            used += 2
        else:
            mbarrier.arrive(m.own_empty.index(PART), count=1)
        # Through the memory of grad, to store whole rows; queries of the next item can come meanwhile.
        rows = m.grad.matrix(PART)
        rows.store((dq * key_scale).to(m.DTYPE))
        values = rows.load(gl.BlockedLayout([1, 8], [256 // m.P, m.P // 8], [4, 1], [1, 0]))
        fence_async_shared()
        mbarrier.arrive(m.own_empty.index(2 + PART), count=1)
        store(dq_out, values, dq_stride, slopes, item, own, D, m.P)
        turn += 1
        item = queue.read(turn)


@gluon.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def backward_of_queries(
    q_desc,
    k_desc,
    v_desc,
    grad_desc,
    dq,
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
    key_scale,
    dq_stride,
    codes,
    codes_stride,
    LISTED: gl.constexpr,
    HEADS: gl.constexpr,
    D: gl.constexpr,
    P: gl.constexpr,
    K: gl.constexpr,
    BUFFERS: gl.constexpr,
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
        False,
        2 * HALF,
    )
    slopes = Slopes(codes, codes_stride, SLOPED)
    queue = make_work_queue(2)
    m = Shared(
        make_halves(q_desc, P),
        make_halves(grad_desc, P),
        make_barriers(4, 1),
        make_barriers(4, 1),
        make_ring(k_desc, BUFFERS, K, P, 2),
        P,
        K,
        q_desc.dtype,
    )
    gl.warp_specialize(
        [
            (_of_queries, (m, queue, batch, dq, dq_stride, slopes, half, key_scale, D, 0)),
            (_of_queries, (m, queue, batch, dq, dq_stride, slopes, half, key_scale, D, 1)),
            (_load, (q_desc, k_desc, v_desc, grad_desc, m, queue, batch)),
        ],
        [4, 1],
        [240, 24],
    )
