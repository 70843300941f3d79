"""Devices, contexts, versions and settings of libascendcl."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Scenario

pytestmark = pytest.mark.twin


def test_the_current_device_belongs_to_the_thread(scenario: Scenario) -> None:
    scenario("""
        import threading
        from acl import *
        number = ctypes.c_int32(-1)
        refused(NO_CONTEXT, "aclrtGetDevice", ctypes.byref(number))
        assert "aclrtSetDevice" in refused(NO_CONTEXT, "aclrtMalloc", ctypes.byref(ctypes.c_void_p()),
                                           ctypes.c_size_t(8), 0)
        call("aclrtSetDevice", 1)
        call("aclrtGetDevice", ctypes.byref(number))
        assert number.value == 1
        context, fresh = create("aclrtGetCurrentContext"), []
        def other():
            fresh.append(lib.aclrtGetDevice(ctypes.byref(number)))
            call("aclrtSetCurrentContext", context)
            call("aclrtGetDevice", ctypes.byref(number))
            fresh.append(number.value)
        thread = threading.Thread(target=other)
        thread.start(), thread.join()
        assert fresh == [NO_CONTEXT, 1]
        refused(NO_CONTEXT, "aclrtSetCurrentContext", ctypes.byref(number))
    """)


def test_the_configuration_file_names_a_default_device(scenario: Scenario, tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text('{"dump":{"dump_scene":"lite_exception"}, "defaultDevice":{"default_device":"1"}}')
    scenario(
        f"""
        from acl import *
        refused(100003, "aclInit", b"{tmp_path}/missing.json")
        call("aclInit", b"{config}")
        refused(NO_CONTEXT, "aclrtGetDevice", ctypes.byref(ctypes.c_int32()))
        before = memory()
        malloc(64)
        assert memory()[0] == before[0] - 64
        call("aclrtSetDevice", 0)
        assert memory() == before
        call("aclrtSetDevice", 1)
        assert memory()[0] == before[0] - 64
        """
    )


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ({}, 2),
        ({"TWIN_NPU_COUNT": "8"}, 8),
        ({"TWIN_NPU_COUNT": "0"}, 0),
        ({"TWIN_NPU_COUNT": "8", "ASCEND_RT_VISIBLE_DEVICES": "5,1,7"}, 3),
        ({"TWIN_NPU_COUNT": "4", "ASCEND_RT_VISIBLE_DEVICES": "1,4,2"}, 1),  # ends at the first that does not exist
        ({"ASCEND_RT_VISIBLE_DEVICES": ""}, 0),
    ],
)
def test_visible_devices(scenario: Scenario, environment: dict[str, str], count: int) -> None:
    scenario(
        f"""
        from acl import *
        seen = ctypes.c_uint32()
        call("aclrtGetDeviceCount", ctypes.byref(seen))
        assert seen.value == {count}, seen.value
        text = refused(INVALID_DEVICE, "aclrtSetDevice", {count})
        assert "aclrtSetDevice(deviceId={count})" in text and "{count} visible" in text, text
        refused(INVALID_DEVICE, "aclrtSetDevice", -1)
        """,
        **environment,
    )


def test_all_malformed_settings_are_told_at_once(scenario: Scenario) -> None:
    scenario(
        """
        from acl import *
        for function, arguments in {"aclInit": (None,), "aclrtSetDevice": (0,),
                                    "aclrtGetDeviceCount": (ctypes.byref(ctypes.c_uint32()),)}.items():
            text = refused(100000, function, *arguments)
            for name in ("TWIN_NPU_COUNT='two'", "TWIN_NPU_SOC='Ascend950'", "TWIN_NPU_MEMORY='8G'",
                         "TWIN_ATEN='yes'", "TWIN_CANN_VERSION='new'", "TWIN_LOG='loud'"):
                assert name in text, text
        """,
        TWIN_NPU_COUNT="two",
        TWIN_NPU_SOC="Ascend950",
        TWIN_NPU_MEMORY="8G",
        TWIN_ATEN="yes",
        TWIN_CANN_VERSION="new",
        TWIN_LOG="loud",
    )


@pytest.mark.parametrize("version", ["8.2.RC1", "8.3.RC1"])
def test_versions(scenario: Scenario, version: str) -> None:
    scenario(
        f"""
        from acl import *
        def read(package):
            field = ctypes.create_string_buffer(128 + 4 * 64 + 128)
            call("aclsysGetCANNVersion", package, field)
            return field.value.decode()
        assert [read(package) for package in range(7)] == ["{version}"] * 7
        assert read(7) == "25.2.0"
        refused(100000, "aclsysGetCANNVersion", 8, ctypes.create_string_buffer(512))
        """,
        TWIN_CANN_VERSION=version,
    )


def test_life_cycle_and_log(scenario: Scenario) -> None:
    done = scenario(
        """
        from acl import *
        refused(100001, "aclFinalize")
        call("aclInit", None)
        refused(100002, "aclInit", None)
        lib.aclAppLog(1, b"function", b"/a/b/file.cpp", 12, b"value %d", 42)
        lib.aclAppLog(0, b"function", b"file.cpp", 12, b"too fine")
        call("aclFinalize")
        refused(100037, "aclFinalize")
        call("aclInit", None)
        """,
        TWIN_LOG="info",
    )
    assert "emulated NPU" in done.stderr
    assert "app file.cpp:12 function: value 42" in done.stderr
    assert "too fine" not in done.stderr


def test_refusals_are_honest(scenario: Scenario) -> None:
    scenario("""
        from acl import *
        refused(NOT_SUPPORTED, "aclmdlInitDump")
        refused(NOT_SUPPORTED, "aclrtSetDeviceSatMode", 0)
        call("aclrtSetDeviceSatMode", 1)
        refused(100035, "aclrtProcessReport", 1)
        compiler = ctypes.CDLL("libacl_op_compiler.so")
        assert compiler.aclopCompileAndExecute(b"Sort", 0, None, None, 0, None, None, None, 0, 0, None, None) == 500000
        assert "Sort" in message()
        assert compiler.aclSetCompileopt(10, b"enable") == 0
        assert compiler.aclGetCompileoptSize(10) == 7
        value = ctypes.create_string_buffer(7)
        assert compiler.aclGetCompileopt(10, value, ctypes.c_size_t(6)) == 100000
        assert compiler.aclGetCompileopt(10, value, ctypes.c_size_t(7)) == 0 and value.value == b"enable"
        for name in ("aclGetCannAttribute", "aclmdlRICaptureBegin", "aclrtReserveMemAddress"):
            assert not hasattr(lib, name), f"{name} is exported but not emulated"
    """)


def test_no_load_is_made_up(scenario: Scenario) -> None:
    scenario("""
        from acl import *
        call("aclInit", None)
        call("aclrtSetDevice", 0)
        found = (ctypes.c_int32 * 6)()  # four rates and a pointer
        call("aclrtGetDeviceUtilizationRate", 0, ctypes.byref(found))
        assert list(found)[:4] == [-1] * 4, "-1 says that it is not supported"
    """)


def test_use_after_a_reset_is_refused_until_the_device_is_set_again(scenario: Scenario) -> None:
    scenario("""
        from acl import *
        call("aclrtSetDevice", 0)
        s, e, held = stream(), event(), ctypes.c_void_p()
        call("aclrtResetDevice", 0)
        for name, arguments in {
            "aclrtMalloc": (ctypes.byref(held), ctypes.c_size_t(64), 0),
            "aclrtCreateStreamWithConfig": (ctypes.byref(held), 0, 3),
            "aclrtSynchronizeDevice": (),
        }.items():
            assert "no current device; call aclrtSetDevice" in refused(NO_CONTEXT, name, *arguments)
        for again in (False, True):  # a stream does not come back with its device
            if again:
                call("aclrtSetDevice", 0)
            for name, arguments in {"aclrtSynchronizeStream": (s,), "aclrtRecordEvent": (e, s)}.items():
                assert "not a stream, or already destroyed" in refused(107017, name, *arguments)
        ran = []
        s = stream()
        submit(s, lambda: ran.append(1))
        call("aclrtSynchronizeStream", s)
        assert ran == [1]
        refused(INVALID_DEVICE, "aclrtResetDevice", 7)
    """)
