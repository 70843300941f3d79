"""Faults that kernels on an NPU found in data which only the device sees.

Offsets, lengths and indices on the device are checked by the kernels that use them: bad ones are clamped and recorded.
The host learns of it where it waits for the device anyway, at no further wait: in ``torch.npu.synchronize``, and in
whatever is inside of ``with gr_ops.faults.raised():``.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gr_ops.library import npu_loaded


@contextmanager
def raised() -> Iterator[None]:
    """Put this around what waits for the NPU, such as the read of a loss; without an NPU it does nothing.

    RuntimeError names the operator, the argument and the value that a kernel found wrong in what the stream, which is
    waited for, was given before. It costs a copy of 4 KiB from each stream with operators of ours, queued ahead.
    """
    if not npu_loaded():
        yield
        return
    torch.ops.mxrec.copy_fault_records()
    yield
    torch.ops.mxrec.raise_faults(False)


def raise_at_synchronize() -> None:
    """Makes ``torch.npu.synchronize`` raise them too; called once, where the NPU's library is loaded."""
    npu: Any = torch.npu
    plain = npu.synchronize
    if hasattr(plain, "__wrapped__"):
        return

    @functools.wraps(plain)
    def synchronize(*args: Any, **kwargs: Any) -> None:
        with raised():
            plain(*args, **kwargs)

    npu.synchronize = synchronize
