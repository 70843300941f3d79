"""Rings of buffers in shared memory, each with a barrier that tells that it is full and one that it is empty."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from gr_ops.cuda.hopper.structs import struct


@struct
class Ring:
    """Tiles that TMA fills, one after another: the tile of number n is in stage n % STAGES, in phase n // STAGES.

    Consumers keep both, and do not calculate them again for each use: the forward pass loses 5 % by that.
    """

    data: gl.shared_memory_descriptor  # [STAGES, rows, 1, columns]
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    STAGES: gl.constexpr
    ROWS: gl.constexpr
    COLUMNS: gl.constexpr

    @gluon.jit
    def place(self, number):
        """Stage and phase."""
        return number % self.STAGES, (number // self.STAGES) & 1

    @gluon.jit
    def load(self, number, desc, row, head):
        """The producer's: waits until the stage is empty, and has TMA fill it."""
        stage, phase = self.place(number)
        mbarrier.wait(self.empty.index(stage), phase ^ 1)
        mbarrier.expect(self.full.index(stage), self.ROWS * self.COLUMNS * 2)
        tma.async_copy_global_to_shared(desc, [row, head, 0], self.full.index(stage), self.data.index(stage))

    @gluon.jit
    def wait(self, stage, phase):
        """A consumer's: until the stage is full."""
        mbarrier.wait(self.full.index(stage), phase)

    @gluon.jit
    def release(self, stage):
        """A consumer's: it no longer reads the stage."""
        mbarrier.arrive(self.empty.index(stage), count=1)

    @gluon.jit
    def skip(self, stage, phase):
        """A consumer's, of a tile that it does not need."""
        self.wait(stage, phase)
        self.release(stage)

    @gluon.jit
    def matrix(self, stage):
        """The stage as [ROWS, COLUMNS]."""
        return matrix(self.data.index(stage), self.ROWS, self.COLUMNS)


@gluon.jit
def make_ring(desc, STAGES: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr, READERS: gl.constexpr):
    data = gl.allocate_shared_memory(desc.dtype, [STAGES, ROWS, 1, COLUMNS], desc.layout)
    return Ring(data, make_barriers(STAGES, 1), make_barriers(STAGES, READERS), STAGES, ROWS, COLUMNS)


@struct
class Halves:
    """Two tiles of 64 rows each, which a program's two warpgroups share out; loaded together for every item of work."""

    data: gl.shared_memory_descriptor  # [2, 64, 1, columns]
    COLUMNS: gl.constexpr

    @gluon.jit
    def load(self, desc, row, head, barrier):
        for half in gl.static_range(2):
            tma.async_copy_global_to_shared(desc, [row + half * 64, head, 0], barrier, self.data.index(half))

    @gluon.jit
    def matrix(self, half: gl.constexpr):
        return matrix(self.data.index(half), 64, self.COLUMNS)


@gluon.jit
def make_halves(desc, COLUMNS: gl.constexpr):
    return Halves(gl.allocate_shared_memory(desc.dtype, [2, 64, 1, COLUMNS], desc.layout), COLUMNS)


@gluon.jit
def matrix(tile, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """[ROWS, 1, COLUMNS] of TMA's three dimensions as [ROWS, COLUMNS]."""
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, COLUMNS], tile.dtype)
    return tile._reinterpret(tile.dtype, [ROWS, COLUMNS], layout)


@gluon.jit
def make_barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr):
    """[COUNT] barriers."""
    barriers = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for number in gl.static_range(COUNT):
        mbarrier.init(barriers.index(number), count=ARRIVALS)
    return barriers


@gluon.jit
def clear_behind(tile, count, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """Rows from `count` on, which are of the next sequence, become 0: a weight of 0 times its infinity would be NaN."""
    if count < ROWS:
        layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
        row = gl.arange(0, ROWS, gl.SliceLayout(1, layout))
        WIDTH: gl.constexpr = 64 if COLUMNS > 64 else COLUMNS
        for part in gl.static_range(COLUMNS // WIDTH):
            columns = tile.slice(part * WIDTH, WIDTH, 1)
            values = columns.load(layout)
            columns.store(gl.where((row < count)[:, None], values, gl.zeros([ROWS, WIDTH], tile.dtype, layout)))
        fence_async_shared()
        gl.thread_barrier()  # before any warp's product
