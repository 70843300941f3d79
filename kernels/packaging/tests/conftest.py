"""A .run package built from a synthetic vendor tree: real ELF libraries, no NPU, no CANN."""

import hashlib
import os
import platform
import pwd
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

MAKE_RUN = Path(__file__).resolve().parent.parent / "make_run.sh"
ARCH = platform.machine()
OPMASTER = f"op_impl/ai_core/tbe/op_tiling/lib/linux/{ARCH}/libcust_opmaster_rt2.0.so"
OPAPI = "op_api/lib/libcust_opapi.so"
OPSPROTO = f"op_proto/lib/linux/{ARCH}/libcust_opsproto_rt2.0.so"
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND") and key != "LD_LIBRARY_PATH"}


@dataclass(frozen=True, kw_only=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        return self.out.splitlines()[-1] if self.out else ""


def run(*command: object, umask: int = 0o022, cwd: Path | None = None, **variables: object) -> Result:
    """Run without a terminal, so that a question would end in an error instead of hanging."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**CLEAN, **{name: str(value) for name, value in variables.items()}},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        umask=umask,
        cwd=cwd,
        timeout=120,
    )
    return Result(code=done.returncode, out=done.stdout, err=done.stderr)


def as_nobody(command: str) -> Result:
    """Run a shell command as user nobody."""
    return run("su", "nobody", "-s", "/bin/bash", "-c", command)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes the user, which root alone may")


def nobody_id() -> int:
    return pwd.getpwnam("nobody").pw_uid


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """The bytes of a shared library compiled from C text."""
    folder = tmp_path_factory.mktemp("library")

    def compile_c(text: str) -> bytes:
        (folder / "source.c").write_text(text)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "library.so", "source.c"], cwd=folder, check=True)
        return (folder / "library.so").read_bytes()

    return compile_c


@pytest.fixture(scope="session")
def good_library(library: Callable[[str], bytes]) -> bytes:
    return library("#include <string.h>\nunsigned long size_of(const char *s) { return strlen(s); }\n")


@pytest.fixture
def make_tree(tmp_path: Path, good_library: bytes) -> Callable[..., Path]:
    """Writes packages/vendors/<vendor> as an operator builder leaves it; changes maps a file to its bytes or None."""

    def make(vendor: str = "mxrec_demo", changes: dict[str, bytes | None] | None = None, name: str = "tree") -> Path:
        operator = vendor.removeprefix("mxrec_")
        files: dict[str, bytes | None] = {
            OPMASTER: good_library,
            OPSPROTO: good_library,
            OPAPI: good_library,
            f"op_api/include/aclnn_{operator}.h": b"// an operator\n",
            "op_impl/ai_core/tbe/config/ascend910b/aic-ascend910b-ops-info.json": b"{}\n",
            "version.info": b"custom_opp_compiler_version=twin-0.1.0",
            **(changes or {}),
        }
        root = tmp_path / name
        for path, content in files.items():
            if content is not None:
                file = root / "packages/vendors" / vendor / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        link = root / "packages/vendors" / vendor / "op_impl/ai_core/tbe/op_tiling/liboptiling.so"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"lib/linux/{ARCH}/libcust_opmaster_rt2.0.so")
        return root

    return make


@pytest.fixture
def make_package(tmp_path: Path, make_tree: Callable[..., Path]) -> Callable[..., Path]:
    """Builds <vendor>-<version>.run in a folder with a space in its name."""

    def make(
        vendor: str = "mxrec_demo",
        version: str = "0.2.0",
        changes: dict[str, bytes | None] | None = None,
        package: str = "",
    ) -> Path:
        tree = make_tree(vendor, changes, f"{vendor} {version} {package}")
        out = tmp_path / "with space" / f"{vendor}-{version}{package}.run"
        built = run(
            MAKE_RUN,
            "--tree",
            tree,
            "--vendor",
            vendor,
            "--version",
            version,
            "--out",
            out,
            "--package",
            package or vendor.replace("mxrec_", "mxrec_opp_"),
        )
        assert built.code == 0, built.err
        return out

    return make


@pytest.fixture
def opp(tmp_path: Path) -> Path:
    """An empty opp directory, with a space in its path."""
    path = tmp_path / "ascend home" / "opp"
    path.mkdir(parents=True)
    return path


def priority(opp: Path) -> str:
    return (opp / "vendors/config.ini").read_text().strip()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def tree_state(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
