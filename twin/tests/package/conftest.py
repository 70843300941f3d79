"""The wheel ascend-twin, installed in a plain virtual environment and used by a user who is not root.

TWIN_LIB64 names the lib64 of a built home (default: the image's). A plain environment has no torch of its own here: a
.pth file lets it see the packages of the interpreter that runs the tests, which saves copying gigabytes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
START = REPOSITORY / "tests/start"  # what makes imports of torch shorter in every suite, here by a line of the .pth
IMAGE_LIB64 = "/usr/local/Ascend/ascend-toolkit/latest/lib64"
NOBODY = 65534


class Environment:
    """A virtual environment with the wheel, and a user without rights."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        self.home = folder / "user"
        self.python = folder / "venv/bin/python"
        other = os.geteuid() == 0 and open_to_others(Path(sys.executable)) and open_to_others(site_packages())
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if other else {}
        self.home.mkdir()
        if self.user:
            os.chown(self.home, NOBODY, NOBODY)
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        install = [
            str(self.python),
            "-m",
            "pip",
            "install",
            "--no-index",
            "--no-deps",
            "--no-cache-dir",
            "-q",
            str(wheel),
        ]
        subprocess.run(install, check=True, env={"PATH": os.environ["PATH"], "HOME": str(self.home)})
        (self.packages / "tests.pth").write_text(f"{site_packages()}\n{START}\n")

    @property
    def packages(self) -> Path:
        (found,) = (self.folder / "venv/lib").glob("python3.*/site-packages")
        return found

    def run(self, *command: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        """As that user, with nothing of this process's environment but what finds programs."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command,
            env={**environment, **variables},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            **self.user,
        )
        assert done.returncode == code, f"exit code {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}"
        return done

    def twin(self, *arguments: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.python), "-m", "ascend_twin", *arguments, code=code, **variables)


def open_to_others(path: Path) -> bool:
    """Root's own interpreter may lie where no other user gets; in the image it does not."""
    real = path.resolve()
    return all(folder.stat().st_mode & 0o001 for folder in (real, *real.parents))


def site_packages() -> Path:
    spec = importlib.util.find_spec("torch_npu")  # does not import it
    assert spec is not None and spec.origin is not None, "torch_npu is not installed"
    return Path(spec.origin).parents[1]


@pytest.fixture(scope="session")
def home_tree() -> Path:
    """What recipes/twin makes, from libraries that are built already."""
    lib64 = Path(os.environ.get("TWIN_LIB64", IMAGE_LIB64)).resolve()
    if not (lib64 / "libascendcl.so").is_file():
        pytest.fail(f"{lib64} has no libascendcl.so; build recipes/twin, or set TWIN_LIB64 to a build's lib64")
    return lib64.parent


@pytest.fixture(scope="session")
def wheel(home_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    home = out / "home"
    for part in ("lib64", "bin"):
        shutil.copytree(home_tree / part, home / part)
    shutil.copytree(REPOSITORY / "twin/include", home / "include")
    for part in ("opbuild", "cores"):
        shutil.copytree(REPOSITORY / "twin" / part, home / "tools" / part)
    shutil.copytree(REPOSITORY / "twin/tools/profiler", home / "tools/profiler")
    shutil.copy(REPOSITORY / "twin/set_env.sh", home)
    for part in (".", "runtime", "compiler", "opp"):
        (home / part).mkdir(exist_ok=True)
        shutil.copy(home_tree / "version.info", home / part)  # with the releases that the libraries are compiled for
    program = "import sys, wheel_backend; print(wheel_backend.build_wheel(sys.argv[1]))"
    backend = str(REPOSITORY / "twin/python/build_backend")
    environment = {**os.environ, "TWIN_HOME": str(home), "PYTHONPATH": backend}
    command = [sys.executable, "-c", program, str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return out / done.stdout.strip()


@pytest.fixture(scope="session")
def environment(wheel: Path) -> Iterator[Environment]:
    # pytest's own folders are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="ascend-twin-"))
    folder.chmod(0o755)
    yield Environment(folder, wheel)
    shutil.rmtree(folder)
