"""What a program of the backward pass has in shared memory."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from gr_ops.cuda.hopper.ring import Halves, Ring
from gr_ops.cuda.hopper.structs import struct

HALF = gl.constexpr(64)  # keys of a warpgroup


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
    about: gl.shared_memory_descriptor  # [4 SLOTS, 1]: of each half where its queries begin, and its buckets
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
    def wait_for_slot(self, used):
        mbarrier.wait(self.ds_empty.index(used % self.SLOTS), ((used // self.SLOTS) & 1) ^ 1)

    @gluon.jit
    def put_ds(self, used, values, PART: gl.constexpr):
        """A warpgroup's half of the gradient of scores, for the partition of queries."""
        slot = used % self.SLOTS
        self.ds.index(slot * 2 + PART).store(values)
        fence_async_shared()
        mbarrier.arrive(self.ds_full.index(slot * 2 + PART), count=1)

    @gluon.jit
    def put_about(self, used, at, bits, PART: gl.constexpr):
        """Before `put_ds`."""
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        place = 2 * (2 * (used % self.SLOTS) + PART)
        none = gl.zeros([1], gl.int32, layout)
        self.about.index(place).store(none + at)
        self.about.index(place + 1).store(none + bits)

    @gluon.jit
    def about_ds(self, slot):
        """Where the queries of a tile begin, and both halves' buckets."""
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
        at = gl.sum(self.about.index(4 * slot).load(layout), 0)
        bits_0 = gl.sum(self.about.index(4 * slot + 1).load(layout), 0)
        bits_1 = gl.sum(self.about.index(4 * slot + 3).load(layout), 0)
        return at, bits_0, bits_1

    @gluon.jit
    def whole_ds(self, slot):
        """Both warpgroups' halves, [128, Q]."""
        shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([2 * HALF, self.Q], self.ds.dtype)
        return self.ds._reinterpret(self.ds.dtype, [self.SLOTS, 2 * HALF, self.Q], shared).index(slot)
