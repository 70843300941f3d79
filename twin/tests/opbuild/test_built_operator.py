"""An operator that the builder has never seen: macro tiling data, an optional input, two types, two tiling keys."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import package_of
import pytest

HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.twin


def opbuild(out: Path, home: Path, socs: str) -> list[str]:
    return package_of.opbuild(HERE / "scale_rows", out, home, "--soc", socs)


def test_a_soc_that_the_definition_does_not_declare_is_refused(tmp_path):
    done = subprocess.run(opbuild(tmp_path / "out", tmp_path, "ascend910b,ascend310p"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "ScaleRows is to be built for ascend310p, but its definition declares ascend910b" in done.stderr
    assert not (tmp_path / "out/packages").exists()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("#include <algorithm>\nint x() { return std::clamp(3, 1, 2); }\n", "clamp"),  # C++17
        ("#include <numeric>\nint x() { return std::gcd(4, 6); }\n", "gcd"),
        ("int x() { auto twice = [](auto n) { return 2 * n; }; return twice(2); }\n", "auto"),  # C++14
    ],
)
def test_op_host_that_the_toolkit_could_not_compile_is_refused(tmp_path, text, word):
    shutil.copytree(HERE / "scale_rows", tmp_path / "scale_rows")
    with (tmp_path / "scale_rows/op_host/scale_rows.cpp").open("a") as source:
        source.write(text)
    command = opbuild(tmp_path / "out", tmp_path, "ascend910b")
    command[command.index("--op") + 1] = str(tmp_path / "scale_rows")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "op_host is compiled as C++11 by the toolkit" in done.stderr and word in done.stderr
    assert not (tmp_path / "out/packages").exists()


def test_a_kernel_has_what_its_own_includes_give_and_no_more(tmp_path):
    """As on the toolkit, kernel_operator.h alone does not give ListTensorDesc."""
    shutil.copytree(HERE / "scale_rows", tmp_path / "scale_rows")
    (tmp_path / "home").mkdir()
    kernel = tmp_path / "scale_rows/op_kernel/scale_rows.cpp"
    source = kernel.read_text()
    for include in ("", '#include "kernel_operator_list_tensor_intf.h"\n'):
        kernel.write_text(f"{include}{source}inline void Uses(AscendC::ListTensorDesc *) {{}}\n")
        command = opbuild(tmp_path / "out", tmp_path / "home", "ascend910b")
        command[command.index("--op") + 1] = str(tmp_path / "scale_rows")
        done = subprocess.run(command, capture_output=True, text=True)
        # With the header it goes on to link, for which this home has no libraries.
        assert ("ListTensorDesc" in done.stderr) == (not include), done.stderr


@pytest.mark.parametrize("strict", [False, True])
def test_warnings_of_op_host_are_errors_on_request(tmp_path, strict):
    shutil.copytree(HERE / "scale_rows", tmp_path / "scale_rows")
    with (tmp_path / "scale_rows/op_host/scale_rows.cpp").open("a") as source:
        source.write("int unused(int parameter) { return 1; }\n")
    command = opbuild(tmp_path / "out", tmp_path, "ascend910b,ascend310p")  # stops behind op_host: an undeclared SoC
    command[command.index("--op") + 1] = str(tmp_path / "scale_rows")
    done = subprocess.run([*command, *(["--werror"] if strict else [])], capture_output=True, text=True)
    assert ("unused parameter" in done.stderr) and ("op_host is compiled as C++11" in done.stderr) == strict


def test_cores_that_are_not_there_are_asked_for(tmp_path):
    command = [*opbuild(tmp_path / "out", tmp_path, "ascend910b"), "--cores", str(tmp_path / "cores.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"cores.o is not there; make it: opbuild.py --make-cores {tmp_path}/cores.o" in done.stderr


def test_the_program_that_prints_definitions_is_taken_from_beside_the_cores(tmp_path):
    (tmp_path / "cores.o").touch()
    (tmp_path / "dump_definitions.o").write_text("no object")
    command = [*opbuild(tmp_path / "out", tmp_path, "ascend910b"), "--cores", str(tmp_path / "cores.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{tmp_path}/dump_definitions.o" in done.stderr and "dump_definitions.cpp" not in done.stderr


@pytest.fixture
def call(vendor, host):
    library = vendor / "op_api/lib/libcust_opapi.so"
    return lambda x, bias, factor, y: host.call(library, "ScaleRows", x, bias, factor, y)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("with_bias", [True, False])
def test_tiling_data_of_macros_reaches_the_kernel(call, dtype, with_bias):
    x = np.arange(21, dtype=dtype).reshape(3, 7)
    bias = np.arange(7, dtype=dtype) if with_bias else None
    y = np.empty_like(x)
    call(x, bias, ctypes.c_double(0.5), y)
    assert (y == x * np.array(0.5, dtype) + (0 if bias is None else bias)).all()


def test_unknown_tiling_key(call):
    with pytest.raises(RuntimeError, match="561003.*tiling key 5"):
        call(np.ones((2, 5), np.float32), None, ctypes.c_double(1), np.ones((2, 5), np.float32))


@pytest.mark.parametrize("shape", [(5,), (1, 2, 5)])
def test_failed_tiling(call, shape):
    with pytest.raises(RuntimeError, match="561002: .*the tiling function failed"):
        call(np.ones(shape, np.float32), None, ctypes.c_double(1), np.ones(shape, np.float32))


def test_strided_input_without_auto_contiguous(call):
    with pytest.raises(RuntimeError, match="161002.*x must be contiguous"):
        call(np.ones((2, 8), np.float32)[:, ::2], None, ctypes.c_double(1), np.ones((2, 4), np.float32))


def test_a_trap_reaches_synchronise_with_its_text(call):
    # bias is shorter than a row: the kernel reads past it.
    with pytest.raises(RuntimeError, match=r"507015: .*ScaleRows block \d call DataCopyPad: \[E-17\]"):
        call(np.ones((2, 8), np.float32), np.ones(3, np.float32), ctypes.c_double(1), np.ones((2, 8), np.float32))


def test_an_output_in_the_place_of_an_input(call):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = x * 2
    call(x, None, ctypes.c_double(2.0), x)
    np.testing.assert_array_equal(x, expected)


def test_vendor_tree(vendor):
    assert (vendor / "version.info").read_text() == "custom_opp_compiler_version=twin-8.3.RC1\n"
    assert (
        "aclnnScaleRowsGetWorkspaceSize(const aclTensor *x, const aclTensor *biasOptional, double factor, "
        in (vendor / "op_api/include/aclnn_scale_rows.h").read_text()
    )
    tbe = vendor / "op_impl/ai_core/tbe"
    info = json.loads((tbe / "config/ascend910b/aic-ascend910b-ops-info.json").read_text())
    assert info["ScaleRows"]["input1"]["name"] == "bias"
    assert (tbe / "op_tiling/liboptiling.so").resolve().name == "libcust_opmaster_rt2.0.so"
    assert (tbe / "test_impl/dynamic/scale_rows.cpp").is_file()


def test_the_library_needs_only_the_runtime(vendor):
    text = subprocess.run(
        ["readelf", "-d", str(vendor / "op_api/lib/libcust_opapi.so")], capture_output=True, text=True, check=True
    ).stdout
    needed = {line.split("[")[1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line}
    system = {
        "libstdc++.so.6",
        "libm.so.6",
        "libgcc_s.so.1",
        "libc.so.6",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    }
    assert needed - system == {"libnnopbase.so", "libascendcl.so"}
