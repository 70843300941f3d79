"""What a call returns that is refused before anything is launched.

Which of the codes a fault gets depends on who sees it first, the toolkit's own checks or the operator's functions, and
the texts are each toolkit's own: tests match a text only where they are marked `emulated`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aclnn_host import AclnnError

# a null argument, an invalid one; shape inference, tiling, no kernel
CODES = (161001, 161002, 561001, 561002, 561003)


@contextmanager
def refused(text: str = "") -> Iterator[None]:
    """text: a pattern of the emulation's message."""
    with pytest.raises(AclnnError) as error:
        yield
    assert error.value.code in CODES, str(error.value)
    assert re.search(text, str(error.value), re.DOTALL), str(error.value)
