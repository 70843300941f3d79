"""A program's queue of work: the loader draws an item and says what it is, all other partitions read that."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from gr_ops.cuda.hopper.structs import struct


@struct
class Item:
    """A tile of one head of one sequence: its number, -1 at the end of the work; where the sequence begins, its length,
    contextual tokens and where its targets begin; the sequence's number."""

    tile: gl.tensor
    head: gl.tensor
    begin: gl.tensor
    length: gl.tensor
    context: gl.tensor
    history: gl.tensor
    sequence: gl.tensor


@struct
class WorkQueue:
    """Of one item; `turn` counts them."""

    facts: gl.shared_memory_descriptor  # [8, 1]
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor

    @gluon.jit
    def publish(self, turn, item):
        """Of the loader, one warp."""
        self._write(turn, item.tile, item.head, item.begin, item.length, item.context, item.history, item.sequence)

    @gluon.jit
    def end(self, turn):
        self._write(turn, -1, 0, 0, 0, 0, 0, 0)

    @gluon.jit
    def _write(self, turn, tile, head, begin, length, context, history, sequence):
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
        place = gl.arange(0, 8, layout)
        facts = gl.where(place == 0, tile, gl.where(place == 1, head, gl.where(place == 2, begin, length)))
        facts = gl.where(place == 4, context, gl.where(place == 5, history, facts))
        facts = gl.where(place == 6, sequence, facts)
        mbarrier.wait(self.empty, (turn & 1) ^ 1)
        self.facts._reinterpret(gl.int32, [8], gl.SwizzledSharedLayout(1, 1, 1, [0])).store(facts)
        mbarrier.arrive(self.full, count=1)

    @gluon.jit
    def _read(self, place: gl.constexpr):
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        return gl.sum(self.facts.index(place).load(layout), 0)

    @gluon.jit
    def read(self, turn):
        """Of four warps."""
        mbarrier.wait(self.full, turn & 1)
        item = Item(
            self._read(0), self._read(1), self._read(2), self._read(3), self._read(4), self._read(5), self._read(6)
        )
        mbarrier.arrive(self.empty, count=1)
        return item


@gluon.jit
def make_work_queue(READERS: gl.constexpr):
    queue = WorkQueue(
        gl.allocate_shared_memory(gl.int32, [8, 1], gl.SwizzledSharedLayout(1, 1, 1, [0])),
        gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout()),
        gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout()),
    )
    mbarrier.init(queue.full, count=1)
    mbarrier.init(queue.empty, count=READERS)
    return queue


@gluon.jit
def draw_from(counter, items):
    """The next item's number. The last draw of a launch leaves the counter at 0 for the next launch."""
    # Relaxed: a stronger one would empty the L1 cache of what other partitions read.
    drawn = gl.atomic_add(counter, 1, sem="relaxed")
    if drawn == items - 1:
        gl.store(counter, 0)
    return drawn + gl.num_programs(0)
