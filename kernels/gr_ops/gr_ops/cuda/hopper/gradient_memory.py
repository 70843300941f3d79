"""What a program of the backward pass has in shared memory."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from gr_ops.cuda.hopper.ring import Halves, Ring
from gr_ops.cuda.hopper.structs import struct

HALF = gl.constexpr(64)  # keys of a warpgroup
# Of a tile where its queries begin, from the first key on, a multiple of 64; plus 1 where distances do not follow the
# diagonals. END: there is no tile.
END = gl.constexpr(-(2**31))


@struct
class Shared:
    k: Halves
    v: Halves
    k_full: gl.shared_memory_descriptor
    k_empty: gl.shared_memory_descriptor  # of the gradient of queries too, which needs no values
    v_full: gl.shared_memory_descriptor
    v_empty: gl.shared_memory_descriptor
    q: Ring
    grad: Ring
    ds: gl.shared_memory_descriptor  # [2 SLOTS, 64, Q]
    ds_full: gl.shared_memory_descriptor
    ds_empty: gl.shared_memory_descriptor
    about: gl.shared_memory_descriptor  # [4 SLOTS, 1]: of each half its tile's place, and its buckets
    dq: gl.shared_memory_descriptor  # [P / WIDTH, Q, 1, WIDTH] float32
    P: gl.constexpr
    Q: gl.constexpr
    SLOTS: gl.constexpr

    @gluon.jit
    def load_keys(self, desc, turn, row, head):
        mbarrier.wait(self.k_empty.index(0), (turn & 1) ^ 1)
        mbarrier.expect(self.k_full.index(0), 2 * HALF * self.P * 2)
        self.k.load(desc, row, head, self.k_full.index(0))

    @gluon.jit
    def load_values(self, desc, turn, row, head):
        mbarrier.wait(self.v_empty.index(0), (turn & 1) ^ 1)
        mbarrier.expect(self.v_full.index(0), 2 * HALF * self.P * 2)
        self.v.load(desc, row, head, self.v_full.index(0))

    @gluon.jit
    def wait_for_keys(self, turn):
        mbarrier.wait(self.k_full.index(0), turn & 1)

    @gluon.jit
    def wait_for_values(self, turn):
        mbarrier.wait(self.v_full.index(0), turn & 1)

    @gluon.jit
    def slot(self, used):
        """A tile's slot and phase. By bits, not as a remainder: of that the compiler makes an address of its own for each
        access, counted up from tile to tile, which takes a register each."""
        if self.SLOTS == 1:
            slot = 0 * used
            phase = used & 1
        else:
            slot = used & 1
            phase = (used >> 1) & 1
        return slot, phase

    @gluon.jit
    def wait_for_slot(self, used):
        slot, phase = self.slot(used)
        mbarrier.wait(self.ds_empty.index(slot), phase ^ 1)

    @gluon.jit
    def _slopes(self, used, PART: gl.constexpr):
        shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HALF, self.Q], gl.float16)
        slot, _phase = self.slot(used)
        return self.ds.index(slot * 2 + PART)._reinterpret(gl.float16, [HALF, self.Q], shared)

    @gluon.jit
    def keep_slope(self, used, slope, PART: gl.constexpr):
        """Where `put_ds` will put the product with it."""
        self._slopes(used, PART).store(slope)

    @gluon.jit
    def slope(self, used, PART: gl.constexpr, LAYOUT: gl.constexpr):
        return self._slopes(used, PART).load(LAYOUT)

    @gluon.jit
    def put_ds(self, used, values, PART: gl.constexpr):
        """A warpgroup's half of the gradient of scores, for the partition of queries."""
        slot, _phase = self.slot(used)
        self.ds.index(slot * 2 + PART).store(values)
        fence_async_shared()
        mbarrier.arrive(self.ds_full.index(slot * 2 + PART), count=1)

    @gluon.jit
    def put_about(self, used, place, bits, PART: gl.constexpr):
        """Before `put_ds`: a tile's place and a half's buckets."""
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        slot, _phase = self.slot(used)
        number = 2 * (2 * slot + PART)
        none = gl.zeros([1], gl.int32, layout)
        self.about.index(number).store(none + place)
        self.about.index(number + 1).store(none + bits)

    @gluon.jit
    def end(self, used, PART: gl.constexpr):
        """After the last tile of all."""
        self.wait_for_slot(used)
        self.put_about(used, END, 0, PART)
        slot, _phase = self.slot(used)
        mbarrier.arrive(self.ds_full.index(slot * 2 + PART), count=1)

    @gluon.jit
    def _about(self, number, WARPS: gl.constexpr):
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [WARPS], [0])
        return gl.sum(self.about.index(number).load(layout), 0)

    @gluon.jit
    def about_ds(self, slot, WARPS: gl.constexpr):
        """A tile's `place`, and both halves' buckets."""
        return self._about(4 * slot, WARPS), self._about(4 * slot + 1, WARPS), self._about(4 * slot + 3, WARPS)

    @gluon.jit
    def whole_ds(self, slot):
        """Both warpgroups' halves, [2, 64, Q]."""
        shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([2, HALF, self.Q], self.ds.dtype)
        return self.ds._reinterpret(self.ds.dtype, [self.SLOTS, 2, HALF, self.Q], shared).index(slot)
