"""Mutants of the order of pipes and of queue slots."""

from __future__ import annotations

from jagged_cases import TO_DENSE, TO_JAGGED

from .sources import ALLOC, FREE, POP, PUSH, SET_FILL, SPLIT, STORE, WAIT_FILL, WRITER, mutant

SYNCHRONISATION = [
    mutant(
        TO_DENSE,
        "store_before_load",
        "missing sync: the tile is stored without passing through the queue",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe MTE2",
        (WRITER, PUSH + POP, ""),
    ),
    mutant(
        TO_DENSE,
        "fill_stored_before_made",
        "missing sync: the block of padding is stored without V_MTE3",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe V",
        (WRITER, SET_FILL + WAIT_FILL, ""),
    ),
    mutant(
        TO_JAGGED,
        "flag_not_waited_for",
        "missing sync: V_MTE3 is set but not waited for",
        "E-11",
        "by pipe MTE3 does not wait for the write by pipe V",
        (WRITER, WAIT_FILL, ""),
    ),
    mutant(
        TO_JAGGED,
        "flag_not_set",
        "wrong sync: V_MTE3 is waited for but not set",
        "E-12",
        "waited for but never set",
        (WRITER, SET_FILL, ""),
    ),
    mutant(
        TO_JAGGED,
        "stores_overlap",
        "missing barrier: two stores of padding meet in 8 elements",
        "E-13",
        "is not ordered with the write",
        (
            WRITER,
            "AscendC::DataCopyPad(target_[targetStart_ + done], fill_, burst);\n            done += now;",
            "AscendC::DataCopyPad(target_[targetStart_ + done], fill_, burst);\n"
            "            done += done + now < count_ ? now - 8 : now;",
        ),
    ),
]

QUEUES = [
    mutant(
        TO_DENSE, "tensor_not_freed", "leaked queue slot", "E-06", "buffers of the queue are taken", (WRITER, FREE, "")
    ),
    mutant(
        TO_JAGGED,
        "last_tensor_not_freed",
        "leaked queue slot: a tensor is held at the end of the kernel",
        "E-34",
        "was not freed",
        (
            WRITER,
            FREE,
            "            if (done + now < count_) {\n                queue_.FreeTensor(tile);\n            }\n",
        ),
        (WRITER, "COPY_BUFFERS = 2", "COPY_BUFFERS = 2 + 6"),
        (SPLIT, "/ 2 / GM_ALIGNMENT", "/ 8 / GM_ALIGNMENT"),
    ),
    mutant(TO_DENSE, "freed_twice", "queue slot freed twice", "E-09", "is freed twice", (WRITER, FREE, FREE + FREE)),
    mutant(
        TO_JAGGED,
        "freed_before_store",
        "queue slot used after it was freed",
        "E-09",
        "after FreeTensor",
        (WRITER, STORE + FREE, FREE + STORE),
    ),
    mutant(TO_DENSE, "taken_twice", "DeQue twice for one EnQue", "E-08", "empty queue", (WRITER, POP, POP + POP)),
    mutant(
        TO_DENSE,
        "two_in_a_queue_of_one",
        "EnQue beyond the queue's depth",
        "E-07",
        "more than 1 tensors",
        (
            WRITER,
            PUSH,
            PUSH + "            AscendC::LocalTensor<T> other = queue_.template AllocTensor<T>();\n"
            "            queue_.EnQue(other);\n",
        ),
    ),
    mutant(
        TO_JAGGED,
        "too_many_buffers",
        "65 buffers in one pipe",
        "E-04",
        "more than 64 buffers",
        (WRITER, "queue_, COPY_BUFFERS, tileBytes", "queue_, 65, 1024"),
    ),
    mutant(
        TO_JAGGED,
        "nine_alive",
        "nine live buffers in one position",
        "E-05",
        "more than 8 live buffers",
        (WRITER, "queue_, COPY_BUFFERS, tileBytes", "queue_, 9, tileBytes / 5"),
        (
            WRITER,
            ALLOC,
            "            for (int i = 0; i < 8; ++i) {\n"
            "                queue_.template AllocTensor<T>();\n            }\n" + ALLOC,
        ),
    ),
]
