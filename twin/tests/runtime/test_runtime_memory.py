"""Device and host memory of libascendcl: limits, accounting, and copies that are held against the map."""

from __future__ import annotations

import pytest

from conftest import Scenario

pytestmark = pytest.mark.twin


def test_allocations_are_aligned_and_counted(scenario: Scenario) -> None:
    scenario(
        """
        from acl import *
        call("aclrtSetDevice", 0)
        assert memory() == (1 << 20, 1 << 20)
        blocks = [malloc(size) for size in (1, 32, 33, 1000)]
        assert all(block.value % 512 == 0 for block in blocks)
        assert memory()[0] == (1 << 20) - (32 + 32 + 64 + 1024)
        start, size = ctypes.c_void_p(), ctypes.c_size_t()
        lib.twinDeviceAllocation.restype = ctypes.c_bool
        def holds(offset, count):
            return lib.twinDeviceAllocation(
                ctypes.c_void_p(blocks[3].value + offset), ctypes.c_size_t(count),
                ctypes.byref(start), ctypes.byref(size))
        assert holds(1000, 24) and (start.value, size.value) == (blocks[3].value, 1024)
        assert not holds(1000, 25) and not holds(-1, 1)
        for block in blocks:
            call("aclrtFree", block)
        assert memory() == (1 << 20, 1 << 20)
        assert "aclrtFree" in refused(PARAM_INVALID, "aclrtFree", blocks[0])
        """,
        TWIN_NPU_MEMORY=str(1 << 20),
    )


def test_the_limit_is_per_device(scenario: Scenario) -> None:
    scenario(
        """
        from acl import *
        call("aclrtSetDevice", 0)
        full = malloc(1 << 20)
        text = refused(OUT_OF_MEMORY, "aclrtMalloc", ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1), 0)
        assert "aclrtMalloc(size=1)" in text and "1048576 of 1048576 bytes of device 0" in text, text
        call("aclrtSetDevice", 1)
        malloc(1 << 20)
        call("aclrtFree", full)  # from a thread whose device is another
        call("aclrtSetDevice", 0)
        malloc(1 << 20)
        """,
        TWIN_NPU_MEMORY=str(1 << 20),
    )


def test_copies_check_room_and_kind(scenario: Scenario) -> None:
    scenario("""
        from acl import *
        call("aclrtSetDevice", 0)
        host, back = ctypes.create_string_buffer(bytes(range(64)), 64), ctypes.create_string_buffer(64)
        device, n = malloc(64), ctypes.c_size_t
        def copy(to, room, source, count, kind):
            return "aclrtMemcpy", to, n(room), source, n(count), kind
        call(*copy(device, 64, host, 64, H2D))
        call(*copy(back, 64, device, 64, D2H))
        assert back.raw == bytes(range(64))
        wrong = {
            "greater than destMax": copy(device, 63, host, 64, H2D),
            "dst is not inside one device allocation": copy(back, 64, host, 64, H2D),
            "src is not inside one device allocation": copy(back, 64, host, 64, D2H),
            "src is device memory": copy(device, 64, device, 64, H2D),
            "dst is device memory": copy(device, 64, device, 64, D2H),
            "unknown kind": copy(device, 64, host, 64, 9),
            "null pointer": copy(device, 64, None, 64, H2D),
        }
        for reason, arguments in wrong.items():
            text = refused(PARAM_INVALID, *arguments)
            assert reason in text and "aclrtMemcpy(dst=" in text, text
        past = ctypes.c_void_p(device.value + 32)
        refused(PARAM_INVALID, *copy(past, 64, host, 64, H2D))
        call(*copy(past, 32, host, 32, H2D))
        call(*copy(device, 0, host, 0, H2D))
        refused(PARAM_INVALID, "aclrtMemset", device, n(64), 0, n(65))
        refused(PARAM_INVALID, "aclrtMemset", host, n(64), 0, n(64))
        call("aclrtMemset", device, n(64), 0xab, n(64))
        call(*copy(back, 64, device, 64, D2H))
        assert back.raw == bytes([0xab]) * 64
    """)


def test_asynchronous_copies_keep_the_order_of_the_stream(scenario: Scenario) -> None:
    # Pageable source: may be overwritten at once. Pinned source: is read when the copy's turn comes.
    scenario("""
        import threading
        from acl import *
        call("aclrtSetDevice", 0)
        s, gate, n = stream(), threading.Event(), ctypes.c_size_t(8)
        device, second, pinned = malloc(8), malloc(8), create("aclrtMallocHost", ctypes.c_size_t(8))
        page = ctypes.create_string_buffer(b"pageable", 8)
        ctypes.memmove(pinned, b"early   ", 8)
        submit(s, lambda: gate.wait(60) and None)
        call("aclrtMemcpyAsync", device, n, page, n, H2D, s)
        call("aclrtMemcpyAsync", second, n, pinned, n, H2D, s)
        page.raw = b"changed!"
        ctypes.memmove(pinned, b"late    ", 8)
        gate.set()
        out = ctypes.create_string_buffer(8)
        call("aclrtMemcpyAsync", out, n, device, n, D2H, s)  # to pageable memory: complete on return
        assert out.raw == b"pageable", out.raw
        call("aclrtMemcpyAsync", out, n, second, n, D2H, s)
        assert out.raw == b"late    ", out.raw
        refused(PARAM_INVALID, "aclrtMemcpyAsync", device, n, out, n, D2D, s)
        call("aclrtFreeHost", pinned)
        refused(PARAM_INVALID, "aclrtFreeHost", pinned)
    """)
