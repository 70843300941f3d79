"""What CANN's tools are told when an operator is built for platform cann, with both forms of project that CANN has."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.golden.fake_cann import make_toolkit

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = "scale_rows"  # an operator of its own: what is pinned here does not change with the real ones
SOURCES = {
    "op_host/scale_rows.cpp": 'class ScaleRows : public OpDef {};\nOP_ADD(ScaleRows);\n// AddConfig("ascend910b")\n',
    "op_kernel/scale_rows.cpp": "// the kernel\n",
    "op_kernel/scale_rows_tiling.h": "// its tiling\n",
}


def project(root: Path) -> Path:
    for name, text in SOURCES.items():
        file = root / "kernels/operators" / OPERATOR / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "kernels/operators/common").mkdir()
    (root / "kernels/operators/common/jagged.h").write_text("// shared\n")
    (root / "kernels/packaging").symlink_to(ROOT / "kernels/packaging")
    (root / "recipes").symlink_to(ROOT / "recipes")
    return root


def build(
    tmp_path: Path, variables: dict[str, str], socs: str = "ascend910b,ascend910_93"
) -> subprocess.CompletedProcess[str]:
    source, out = tmp_path / "source", tmp_path / "out"
    if not source.exists():
        source.mkdir()
        project(source)
        out.mkdir()
    for folder in ("venv", "base"):
        python = tmp_path / folder / "bin/python3"
        if not python.exists():
            python.parent.mkdir(parents=True)
            python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            python.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND")}
    environment.pop("LD_LIBRARY_PATH", None)
    environment |= {
        "GRSTACK_SOURCE": str(source),
        "GRSTACK_OUT": str(out),
        "GRSTACK_DEPS": str(tmp_path / "deps"),
        "GRSTACK_PLATFORM": "cann",
        "GRSTACK_ARCH": "x86_64",
        "GRSTACK_PYTHON": str(tmp_path / "venv/bin/python3"),
        "PATH": f"{tmp_path}/venv/bin:{tmp_path}/base/bin:{os.environ['PATH']}",
        "GRSTACK_JOBS": "2",
        "GRSTACK_OPERATOR": OPERATOR,
        "GRSTACK_SOCS": socs,
        "TMPDIR": str(tmp_path),
    }
    script = str(source / "recipes/operators/build.sh")
    return subprocess.run(
        ["bash", script], env={**environment, **variables}, capture_output=True, text=True, check=False
    )


def plain(text: str, tmp_path: Path) -> str:
    """Without the places of this run."""
    text = re.sub(re.escape(str(tmp_path)) + r"/tmp\.\w+", "SCRATCH", text)
    text = text.replace(str(tmp_path), "HERE").replace("HERE/venv/bin/python3", "PYTHON")
    version = (ROOT / "kernels/packaging/VERSION").read_text().strip()
    return text.replace(str(ROOT / "recipes"), "HERE/source/recipes").replace(f"'{version}'", "VERSION")


@pytest.mark.parametrize("form", ["functions", "msopgen"])
def test_what_the_build_calls_and_what_cann_is_told(tmp_path: Path, form: str, snapshot: SnapshotAssertion) -> None:
    variables = make_toolkit(tmp_path / "cann", form)
    done = build(tmp_path, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    called = [line for line in done.stdout.splitlines() if line.startswith("+ ")]
    told = (tmp_path / "cann/log").read_text()
    assert plain("\n".join(called) + "\n\n" + told, tmp_path) == snapshot
    listed = subprocess.run(
        ["bash", tmp_path / "out/mxrec_opp_scale_rows.run", "--list"], capture_output=True, text=True
    )
    assert "packages/vendors/mxrec_scale_rows/op_api/lib/libcust_opapi.so" in listed.stdout
    assert interface_in(tmp_path / "out/mxrec_opp_scale_rows.run", tmp_path / "unpacked") == key_of(tmp_path)


def interface_in(package: Path, target: Path) -> list[str]:
    """What version.info of a package says, which the plugin compares."""
    subprocess.run(["bash", package, "--noexec", "--target", target], check=True, capture_output=True)
    lines = (target / "packages/vendors/mxrec_scale_rows/version.info").read_text().splitlines()
    return [line.removeprefix("interface=") for line in lines if line.startswith("interface=")]


def key_of(tmp_path: Path) -> list[str]:
    command = [
        sys.executable,
        ROOT / "kernels/packaging/interface.py",
        tmp_path / "source/kernels/operators" / OPERATOR,
    ]
    key = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r"[0-9a-f]{12}\n", key)
    return key.split()


@pytest.mark.parametrize("place", ["tools", f"{platform.machine()}-linux"])
def test_the_functions_are_found_where_releases_have_them(tmp_path: Path, place: str) -> None:
    """`compiler`, above, is where CANN 8.2 and 8.3 have them."""
    variables = make_toolkit(tmp_path / "cann", "functions")
    (tmp_path / "cann" / place).mkdir(exist_ok=True)
    (tmp_path / "cann/compiler/tikcpp").rename(tmp_path / "cann" / place / "tikcpp")
    done = build(tmp_path, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "npu_op_package(mxrec_scale_rows" in (tmp_path / "cann/log").read_text()


def test_a_toolkit_with_neither_form_is_named(tmp_path: Path) -> None:
    variables = make_toolkit(tmp_path / "cann", "msopgen")
    (tmp_path / "cann/python/site-packages/bin/msopgen").unlink()
    done = build(tmp_path, variables)
    assert done.returncode != 0 and "has neither compiler/tikcpp/ascendc_kernel_cmake" in " ".join(done.stderr.split())
    assert "ASCEND_HOME_PATH is not set" in build(tmp_path, {}).stderr


def test_the_source_package_holds_what_the_kernels_include(tmp_path: Path) -> None:
    """It is compiled again where it is installed: by itself, and without a folder of the machine that built it."""
    variables = make_toolkit(tmp_path / "cann", "functions")
    assert build(tmp_path, variables).returncode == 0
    told = (tmp_path / "cann/log").read_text().splitlines()
    assert {line.split()[1] for line in told if line.startswith("    ships")} == {
        "jagged.h",
        "scale_rows.cpp",
        "scale_rows_tiling.h",
    }
    assert not [line for line in told if line.startswith("npu_op_kernel_options")]
    (tmp_path / "source/kernels/operators/common/scale_rows_tiling.h").write_text("// another\n")
    done = build(tmp_path, variables)
    assert done.returncode != 0 and "scale_rows_tiling.h stands in" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("version", "word"),
    [
        ("Version=8.1.RC1", "TCubeTiling"),
        ("Version=7.6.0.1.220\nversion_dir=8.0.0", "CANN 8.0.0 lacks"),
        ("", "names no version in compiler/version.info; is it a toolkit? Type: source "),
    ],
)
def test_a_toolkit_that_is_too_old_is_refused_with_the_reason(tmp_path: Path, version: str, word: str) -> None:
    variables = make_toolkit(tmp_path / "cann", "functions")
    (tmp_path / "cann/compiler/version.info").write_text(f"{version}\n")
    done = build(tmp_path, variables)
    assert done.returncode != 0 and word in done.stderr and not (tmp_path / "cann/log").exists()
    (tmp_path / "cann/compiler/version.info").unlink()
    (tmp_path / "cann/opp").mkdir()
    (tmp_path / "cann/opp/version.info").write_text("Version=7.8.T5.0.B028\nversion_dir=8.10.0\n")
    assert build(tmp_path, variables).returncode == 0


@pytest.mark.parametrize("form", ["functions", "msopgen"])
def test_a_driver_that_is_there_is_taken_and_no_stub(tmp_path: Path, form: str) -> None:
    variables = make_toolkit(tmp_path / "cann", form)
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver/libascend_hal.so").touch()
    assert build(tmp_path, {**variables, "LD_LIBRARY_PATH": f"{tmp_path}/driver"}).returncode == 0
    assert re.findall(r"libraries in ([^,\n]*)", (tmp_path / "cann/log").read_text()) == [f"{tmp_path}/driver"]


@pytest.mark.parametrize("place", ["set_env.sh", "cann/set_env.sh"])  # up to CANN 8.3, and from 8.5 on
def test_the_toolkits_own_environment_is_read(tmp_path: Path, place: str) -> None:
    """Written for an interactive shell: it meets unset variables and failing commands, and names its own files."""
    variables = make_toolkit(tmp_path / "cann", "functions")
    (tmp_path / place).write_text(
        "recipe=/nowhere version=0\nfalse\n"
        f"export LD_LIBRARY_PATH={tmp_path}/cann/lib64:$LD_LIBRARY_PATH NEVER=$NEVER_SET\n"
    )
    done = build(tmp_path, variables)
    assert done.returncode == 0, done.stderr
    (told,) = re.findall(r"libraries in ([^,\n]*)", (tmp_path / "cann/log").read_text())
    assert told.split(":")[0] == f"{tmp_path}/cann/lib64"


def test_a_soc_that_cann_leaves_out_is_an_error(tmp_path: Path) -> None:
    variables = make_toolkit(tmp_path / "cann", "functions")
    packer = tmp_path / "cann/pack"
    packer.write_text(packer.read_text().replace("@SOCS@/$1/", "@SOCS@/ascend910b/"))
    done = build(tmp_path, variables, "ascend910b,ascend310p")
    assert done.returncode != 0
    assert "scale_rows was to be built for ascend310p and came out for ascend910b" in done.stderr
    assert not list((tmp_path / "out").iterdir())
