"""Small vendors with real ELF libraries, for tests of the vendor manager."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

OPAPI = "op_api/lib/libcust_opapi.so"


@cache
def library(*operators: str, more: str = "") -> bytes:
    """A shared library that exports both phases of each operator."""
    text = "".join(
        f"int aclnn{o}GetWorkspaceSize(void){{return 0;}} int aclnn{o}(void){{return 0;}}\n" for o in operators
    )
    with TemporaryDirectory() as folder:
        (Path(folder) / "a.c").write_text(text + more)
        subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", "-o", "a.so", "a.c"], cwd=folder, check=True)
        return (Path(folder) / "a.so").read_bytes()


def make_vendor(
    opp: Path,
    name: str,
    *operators: str,
    version: str = "1.0",
    more: str = "",
    socs: str = "ascend910b",
    uninstaller: bool = True,
) -> Path:
    place = opp / "vendors" / name
    (place / "op_api/lib").mkdir(parents=True)
    (place / OPAPI).write_bytes(library(*operators, more=more))
    for soc in socs.split(","):
        (place / f"op_impl/ai_core/tbe/config/{soc}").mkdir(parents=True)
    (place / "version.info").write_text(
        f"custom_opp_compiler_version=twin-8.3.RC1\npackage={name}_package\npackage_version={version}\n"
    )
    write_manifest(place)
    if uninstaller:
        (place / "scripts").mkdir()
        (place / "scripts/uninstall.sh").write_text(
            'here=$(cd "$(dirname "$0")/.." && pwd)\n'
            'sed -i "s/\\(=\\|,\\)$(basename "$here")\\b,\\?/\\1/" "$here/../config.ini"\nrm -r "$here"\necho SUCCESS\n'
        )
    return place


def write_manifest(place: Path) -> None:
    done = subprocess.run(
        "find . -type f ! -name manifest.sha256 -printf '%P\\0' | sort -z | xargs -0 sha256sum",
        shell=True,
        cwd=place,
        check=True,
        capture_output=True,
        text=True,
    )
    (place / "manifest.sha256").write_text(done.stdout)


def set_priority(opp: Path, *names: str) -> None:
    (opp / "vendors").mkdir(parents=True, exist_ok=True)
    (opp / "vendors/config.ini").write_text(f"load_priority={','.join(names)}\n")
