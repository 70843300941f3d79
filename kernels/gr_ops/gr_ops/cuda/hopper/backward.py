"""The backward pass on Hopper: five products a tile in one kernel.

A program has 128 keys of one head and goes through their queries. Two warpgroups have 64 keys each: scores, weights,
the gradients of keys and values. A third multiplies the gradient of scores by the keys and adds it to the gradient of
queries in memory (float32, TMA's reduction): it is the only one that waits for both, so they run at their own pace. A
warp loads. Sums over programs come in any order, so bits may differ between runs.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from gr_ops.cuda.hopper.batch import NUMBERS, POINTERS, Batch
from gr_ops.cuda.hopper.gradient_memory import HALF, Shared
from gr_ops.cuda.hopper.key_gradients import of_keys
from gr_ops.cuda.hopper.near_sums import COPIES
from gr_ops.cuda.hopper.query_gradients import of_queries
from gr_ops.cuda.hopper.relative import TABLES, Relative
from gr_ops.cuda.hopper.ring import make_barriers, make_halves, make_ring
from gr_ops.cuda.hopper.slopes import Slopes
from gr_ops.cuda.hopper.table_sums import SUMS, Sums
from gr_ops.cuda.hopper.work_queue import WorkQueue, draw_from, make_work_queue

_copies = gl.constexpr(COPIES)


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
                m.load_keys(k_desc, turn, first, item.head)
                m.load_values(v_desc, turn, first, item.head)
            m.grad.load(used, grad_desc, item.begin + at, item.head)
            used += 1
        number = draw_from(batch.counter, items)
        turn += 1
    queue.end(turn)


@gluon.jit(
    do_not_specialize=[*NUMBERS, "blocks", "pairs", "distances", "numbers", "buckets"],
    do_not_specialize_on_alignment=POINTERS + TABLES + SUMS,
)
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
    k_codes,
    v_codes,
    codes_stride,
    band,
    codes,
    blocks,
    pairs,
    of_position,
    of_blocks,
    of_time,
    of_near,
    distances,
    numbers,
    buckets,
    LISTED: gl.constexpr,
    HEADS: gl.constexpr,
    D: gl.constexpr,
    P: gl.constexpr,
    Q: gl.constexpr,
    STAGES: gl.constexpr,
    SLOTS: gl.constexpr,
    REGISTERS: gl.constexpr,
    SEGMENTS: gl.constexpr,
    WINDOW: gl.constexpr,
    RELATIVE: gl.constexpr,
    SLOPED: gl.constexpr,
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
        2 * HALF,
    )
    relative = Relative(
        band,
        codes,
        blocks,
        pairs,
        RELATIVE,
        -1,
    )
    sums = Sums(
        of_position + gl.program_id(0) % _copies * distances,
        of_blocks + gl.program_id(0) % _copies * numbers,
        of_time + gl.program_id(0) * buckets,
        of_near,
        total,
    )
    k_slopes = Slopes(k_codes, codes_stride, SLOPED)
    v_slopes = Slopes(v_codes, codes_stride, SLOPED)
    queue = make_work_queue(3)
    m = Shared(
        make_halves(k_desc, P),
        make_halves(v_desc, P),
        make_barriers(1, 1),
        make_barriers(1, 3),
        make_barriers(1, 1),
        make_barriers(1, 2),
        make_ring(q_desc, STAGES, Q, P, 2),
        make_ring(grad_desc, STAGES, Q, P, 2),
        gl.allocate_shared_memory(q_desc.dtype, [2 * SLOTS, HALF, Q], ds_layout),
        make_barriers(2 * SLOTS, 1),
        make_barriers(SLOTS, 1),
        gl.allocate_shared_memory(gl.int32, [4 * SLOTS, 1], gl.SwizzledSharedLayout(1, 1, 1, [0])),
        gl.allocate_shared_memory(gl.float32, [P // WIDTH, Q, 1, WIDTH], dq_desc.layout),
        P,
        Q,
        SLOTS,
    )
    gl.warp_specialize(
        [
            (
                of_keys,
                (
                    m,
                    queue,
                    batch,
                    relative,
                    dk,
                    dv,
                    dk_stride,
                    dv_stride,
                    k_slopes,
                    v_slopes,
                    half,
                    scale,
                    key_scale,
                    D,
                    0,
                ),
            ),
            (
                of_keys,
                (
                    m,
                    queue,
                    batch,
                    relative,
                    dk,
                    dv,
                    dk_stride,
                    dv_stride,
                    k_slopes,
                    v_slopes,
                    half,
                    scale,
                    key_scale,
                    D,
                    1,
                ),
            ),
            (of_queries, (m, queue, batch, relative, sums, dq_desc, key_scale)),
            (_load, (q_desc, k_desc, v_desc, grad_desc, m, queue, batch)),
        ],
        [4, 4, 1],
        [REGISTERS, 512 - 24 - 2 * REGISTERS, 24],
    )
