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
    def put_ds(self, used, values, PART: gl.constexpr):
        """A warpgroup's half of the gradient of scores, for the partition of queries."""
        slot = used % self.SLOTS
        mbarrier.wait(self.ds_empty.index(slot), ((used // self.SLOTS) & 1) ^ 1)
        self.ds.index(slot * 2 + PART).store(values)
        fence_async_shared()
        mbarrier.arrive(self.ds_full.index(slot * 2 + PART), count=1)
