"""Which aclnn functions torch_npu has called in this process, as the twin's libopapi counted them."""

from __future__ import annotations

import ctypes


def called() -> tuple[str, ...]:
    """Functions that were called with arguments that the library accepted; none where it is not loaded."""
    try:
        library = ctypes.CDLL("libopapi.so", mode=ctypes.RTLD_GLOBAL)
        function = library.twinAclnnCalls
    except (OSError, AttributeError):  # a real NPU's library does not count
        return ()
    function.restype = ctypes.c_char_p
    return tuple(line.split()[0] for line in function().decode().splitlines())
