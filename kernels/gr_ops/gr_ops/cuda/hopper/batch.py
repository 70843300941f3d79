"""What the kernels for Hopper have in common: the rows of a batch, the barrier ring of drawn items, SiLU, masks."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier
from triton.language.core import _aggregate as aggregate

from gr_ops.cuda.hopper.scheduler import how_many, item_of
from gr_ops.cuda.hopper.tile_ranges import row_of
from gr_ops.cuda.mask import visible

# What the compiled kernel must not depend on (launch.py).
NUMBERS = ["sequences", "tiles", "together", "total", "longest", "group", "window", "whole"]
POINTERS = ["offsets", "contexts", "targets", "items", "counter"]


@aggregate
class Batch:
    """Jagged rows, their masks, and the order of work."""

    offsets: gl.tensor
    contexts: gl.tensor
    targets: gl.tensor
    items: gl.tensor
    counter: gl.tensor
    sequences: gl.tensor
    tiles: gl.tensor
    together: gl.tensor
    total: gl.tensor
    longest: gl.tensor
    group: gl.tensor
    window: gl.tensor
    whole: gl.tensor
    HEADS: gl.constexpr
    LISTED: gl.constexpr
    COUNTS: gl.constexpr
    WINDOW: gl.constexpr
    RISING: gl.constexpr

    @gluon.constexpr_function
    def __init__(
        self, offsets, contexts, targets, items, counter, sequences, tiles, together, total, longest, group, window,
        whole, HEADS, LISTED, COUNTS, WINDOW, RISING,
    ):  # fmt: skip
        self.offsets = offsets
        self.contexts = contexts
        self.targets = targets
        self.items = items
        self.counter = counter
        self.sequences = sequences
        self.tiles = tiles
        self.together = together
        self.total = total
        self.longest = longest
        self.group = group
        self.window = window
        self.whole = whole
        self.HEADS = gl.constexpr(HEADS)
        self.LISTED = gl.constexpr(LISTED)
        self.COUNTS = gl.constexpr(COUNTS)
        self.WINDOW = gl.constexpr(WINDOW)
        self.RISING = gl.constexpr(RISING)

    @gluon.jit
    def how_many(self):
        return how_many(self.items, self.sequences, self.tiles, self.HEADS, self.LISTED)

    @gluon.jit
    def item(self, number):
        """Head and tile; where the sequence begins, its length, contextual tokens and where its targets begin."""
        sequence, head, tile = item_of(
            number, self.items, self.sequences, self.tiles, self.together, self.HEADS, self.LISTED, self.RISING
        )
        begin, length, context, history = row_of(
            self.offsets, self.contexts, self.targets, sequence, self.total, self.longest, self.COUNTS
        )
        if not self.LISTED:  # rows of one length; offsets that lie would leave items without tokens, to be waited for
            begin = sequence * self.longest
            length = self.longest
            if not self.COUNTS:
                history = length
        return head, tile, begin, length, context, history

    @gluon.jit
    def sees(self, query, key, length, context, history):
        return visible(
            query, key, length, context, history, self.group, self.window, self.whole, 0, self.COUNTS, self.WINDOW
        )


@aggregate
class Draw:
    """The next item of a program: the loader draws it and says what it is, all other partitions read that."""

    facts: gl.shared_memory_descriptor  # [8, 1]
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor

    @gluon.constexpr_function
    def __init__(self, facts, full, empty):
        self.facts = facts
        self.full = full
        self.empty = empty

    @gluon.jit
    def publish(self, turn, tile, head, begin, length, context, history):
        """Of the loader, one warp; `turn` counts its items, and a tile of -1 is the end."""
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
        place = gl.arange(0, 8, layout)
        facts = gl.where(place == 0, tile, gl.where(place == 1, head, gl.where(place == 2, begin, length)))
        facts = gl.where(place == 4, context, gl.where(place == 5, history, facts))
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
        tile = self._read(0)
        head = self._read(1)
        begin = self._read(2)
        length = self._read(3)
        context = self._read(4)
        history = self._read(5)
        mbarrier.arrive(self.empty, count=1)
        return tile, head, begin, length, context, history


@gluon.jit
def make_draw(READERS: gl.constexpr):
    draw = Draw(
        gl.allocate_shared_memory(gl.int32, [8, 1], gl.SwizzledSharedLayout(1, 1, 1, [0])),
        gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout()),
        gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout()),
    )
    mbarrier.init(draw.full, count=1)
    mbarrier.init(draw.empty, count=READERS)
    return draw


@gluon.jit
def draw_from(counter, items):
    """The next item. The last draw of a launch leaves the counter at 0 for the next launch."""
    drawn = gl.atomic_add(counter, 1)
    if drawn == items - 1:
        gl.store(counter, 0)
    return drawn + gl.num_programs(0)


@gluon.jit
def make_barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr):
    """[COUNT] barriers."""
    barriers = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for number in gl.static_range(COUNT):
        mbarrier.init(barriers.index(number), count=ARRIVALS)
    return barriers


@gluon.jit
def tanh(x):
    """One instruction; its error of 2^-11 is below that of the 16 bits that the result becomes."""
    return gl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=gl.float32, is_pure=True, pack=1)


@gluon.jit
def clear_behind(tile, count, ROWS: gl.constexpr, WIDTH: gl.constexpr):
    """Rows from `count` on, which are of the next sequence, become 0: a weight of 0 times its infinity would be NaN."""
    if count < ROWS:
        layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
        row = gl.arange(0, ROWS, gl.SliceLayout(1, layout))
        values = tile.load(layout)
        tile.store(gl.where((row < count)[:, None], values, gl.zeros([ROWS, WIDTH], tile.dtype, layout)))
        fence_async_shared()
        gl.thread_barrier()  # before any warp's product
