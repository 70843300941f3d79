"""The skeletons of `inv new operator` in the npu image: built, packed, installed and called from torch on the twin.

Their own tests compare with float64; here they must have run and passed.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grstack.new import Name, beside, inside

ROOT = Path(__file__).resolve().parents[3]
NAME = Name.parse("segment_scale")
HOME = Path(os.environ.get("ASCEND_HOME_PATH", "/usr/local/Ascend/ascend-toolkit/latest"))
COPIED = (
    "kernels",
    "recipes/operators",
    "smoke_tests",
    "twin/cores",
    "twin/include",
    "twin/opbuild",
    "twin/runtime/include",
    "versions.yaml",
)

pytestmark = pytest.mark.twin


def run(*command: object, folder: Path, **variables: str) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def passed(report: str) -> int:
    """How many tests pytest says have passed; none may have been skipped."""
    found = re.search(r"^(\d+) passed(, \d+ deselected)? in ", report, re.MULTILINE)
    assert found is not None, report
    return int(found[1])


def package(name: str) -> Path:
    """Where a Python package is installed, without importing it."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None, f"{name} is not installed; run this in the npu image"
    return Path(spec.origin).parent


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the operator touches, with the operator."""
    copy = tmp_path_factory.mktemp("checkout")
    for place in COPIED:
        (copy / place).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / place).is_dir():
            shutil.copytree(ROOT / place, copy / place, ignore=shutil.ignore_patterns("__pycache__", "build"))
        else:
            shutil.copy(ROOT / place, copy / place)
    inside(copy, NAME).write()
    return copy


@pytest.fixture(scope="module")
def installed_home(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The twin's home with an opp directory of its own, and the operator's .run package installed in it."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "deps").mkdir()
    (folder / "deps/twin").symlink_to(HOME)
    row = re.search(rf"^  {NAME.snake}: {{socs: \[(.*)\]}}$", (checkout / "versions.yaml").read_text(), re.MULTILINE)
    assert row is not None
    settings = {
        "GRSTACK_SOURCE": str(checkout),
        "GRSTACK_OPERATOR": NAME.snake,
        "GRSTACK_SOCS": row[1].replace(", ", ","),
        "GRSTACK_PLATFORM": "twin",
        "GRSTACK_ARCH": platform.machine(),
        "GRSTACK_PYTHON": sys.executable,
        "GRSTACK_DEPS": str(folder / "deps"),
        "GRSTACK_OUT": str(folder),
    }
    run("bash", checkout / "recipes/operators/build.sh", folder=folder, **settings)
    home = folder / "toolkit"
    home.mkdir()
    for part in HOME.iterdir():
        if part.name != "opp":
            (home / part.name).symlink_to(part)
    (home / "opp").mkdir()
    shutil.copy(HOME / "opp/version.info", home / "opp")
    settings |= {"GRSTACK_ARTEFACT": str(folder), "ASCEND_HOME": str(home)}
    run("bash", checkout / "recipes/operators/install.sh", folder=folder, **settings)
    return home


@pytest.fixture(scope="module")
def plugin(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's part of the plugin as a library beside the installed one, which need not be built again."""
    folder = tmp_path_factory.mktemp("plugin")
    sources = checkout / "kernels/gr_ops/csrc"
    built = Path(os.environ.get("GR_OPS_LIBRARY_DIR", package("gr_ops")))
    torch, torch_npu = package("torch"), package("torch_npu")
    abi = "import torch; print(int(torch._C._GLIBCXX_USE_CXX11_ABI))"
    flag = run(sys.executable, "-c", abi, folder=folder, TORCH_DEVICE_BACKEND_AUTOLOAD="0").strip()
    includes = [sources, torch / "include", torch / "include/torch/csrc/api/include", torch_npu / "include"]
    includes += [torch_npu / "include/third_party/acl/inc", torch_npu / "include/third_party/hccl/inc"]
    compiler = ["g++", "-std=c++17", "-O1", "-fPIC", "-fopenmp", f"-D_GLIBCXX_USE_CXX11_ABI={flag}"]
    compiler += [f"-I{include}" for include in includes]

    def compiled(part: str, files: list[Path]) -> Path:
        """In one unit: most of a file's time goes into PyTorch's headers."""
        unit = folder / f"{part}.cpp"
        unit.write_text("".join(f'#include "{file}"\n' for file in files))
        run(*compiler, "-c", unit, "-o", unit.with_suffix(".o"), folder=folder)
        return unit.with_suffix(".o")

    files = sorted((sources / NAME.snake).glob("*.cpp"))
    npu = [file for file in files if file.name.startswith("npu")]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, ("common", "npu"), ([f for f in files if f not in npu], npu)))
    library = folder / "libnew.so"
    search = [word for place in (built, torch / "lib") for word in (f"-L{place}", f"-Wl,-rpath,{place}")]
    # PyTorch brings the OpenMP runtime and the NPU library.
    needed = ["-lgr_ops", "-lfbgemm_npu_api", "-ltorch_cpu", "-lc10", "-Wl,--unresolved-symbols=ignore-all"]
    run("g++", "-shared", *objects, "-o", library, *search, *needed, folder=folder)
    (folder / "load_new.py").write_text(f"import gr_ops, torch\ntorch.ops.load_library({str(library)!r})\n")
    return folder


def pytest_in(folder: Path, *tests: object, **variables: str) -> int:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:ascend_twin", "--rootdir", folder]
    return passed(run(sys.executable, "-m", "pytest", *options, *tests, folder=folder, **variables))


def test_an_operator_of_this_repository(checkout: Path, installed_home: Path, plugin: Path) -> None:
    tests = checkout / "kernels/gr_ops/tests"
    variables = {"PYTHONPATH": f"{plugin}:{tests}", "ASCEND_OPP_PATH": str(installed_home / "opp")}
    # values of two dtypes and four shapes, strides, gradients, messages: on the CPU and on the NPU
    own = f"test_{NAME.snake}.py"
    assert pytest_in(tests, "-p", "load_new", own, **variables) == 22
    checks = [f"test_every_operator.py::{test}" for test in ("test_opcheck", "test_compile", "test_export")]
    assert pytest_in(tests, "-p", "load_new", *checks, "-k", NAME.snake, **variables) == 4


@pytest.mark.slow
def test_an_operator_outside(tmp_path: Path) -> None:
    """Nothing of the checkout is in reach of its build: only the twin's home and the wheels."""
    project = tmp_path / "project"
    beside(ROOT, NAME, project).write()
    without_us = {"PYTHONPATH": ""}
    run(sys.executable, "-m", "ascend_twin", "run", "./build.sh", folder=project, PYTHON=sys.executable, **without_us)
    assert pytest_in(project, "tests", **without_us) == 21


@pytest.mark.slow
def test_the_operators_own_tests(checkout: Path) -> None:
    """Through its C interface, with other orders of the pipes and other numbers of cores."""
    assert pytest_in(checkout, f"kernels/operators/{NAME.snake}") == 92
