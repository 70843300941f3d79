"""What came out of one sample."""

from __future__ import annotations

import re
from dataclasses import dataclass

# torch_npu's words for an error on the device or in its queue. The first call that meets it takes it away, so that a
# synchronise after the sample may find nothing, while the calls that were queued behind it were never made.
_DEVICE_ERROR = re.compile(r"Inner error|ERR\d{5}|ACL stream")


def is_device_error(error: str) -> bool:
    """Whether a process that met `error` must not use the device any more."""
    return _DEVICE_ERROR.search(error) is not None


@dataclass(frozen=True)
class Outcome:
    """`tested`: the checks that the CPU passes. `failed`: (check, error) of those that the NPU does not.
    `shapes_only`: the values are random or uninitialised, so only shapes, data types and devices were compared."""

    tested: tuple[str, ...]
    failed: tuple[tuple[str, str], ...] = ()
    shapes_only: bool = False

    @property
    def device_failed(self) -> bool:
        return any(is_device_error(error) for _, error in self.failed)
