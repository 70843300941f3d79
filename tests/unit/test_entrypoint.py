"""What entry points of images find: set_env.sh in the layouts of CANN's releases and of the twin, NVIDIA's driver."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).resolve().parents[2] / "docker/npu/entrypoint.sh"


@pytest.mark.parametrize(
    ("places", "info", "said"),
    [
        (("set_env.sh",), "Version=8.3.RC1\n", "beside"),  # up to 8.3: ascend-toolkit/set_env.sh, home is latest
        (("latest/set_env.sh",), "Version=8.5.0\n", "within"),  # from 8.5.0: cann-8.5.0/set_env.sh
        (("set_env.sh", "latest/set_env.sh"), "Version=8.3.RC1\n", "beside"),
        (("latest/set_env.sh",), "Version=8.3.RC1\nplatform=twin\n", ""),
        ((), "Version=8.3.RC1\n", ""),
    ],
)
def test_the_toolkit_s_environment_comes_first(tmp_path: Path, places: tuple[str, ...], info: str, said: str) -> None:
    home = tmp_path / "latest"
    home.mkdir()
    (home / "version.info").write_text(info)
    for place in places:
        (tmp_path / place).write_text(f"export FROM={'within' if 'latest' in place else 'beside'}\n")
    done = enter(home, "sh", "-c", "echo $FROM")
    assert (done.stdout.strip(), done.stderr) == (said, "")


def enter(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """As the image's ENTRYPOINT does."""
    (line,) = re.findall(r"^ENTRYPOINT (.*)$", (ENTRYPOINT.parent / "Dockerfile").read_text(), re.MULTILINE)
    shell, _ = json.loads(line)
    variables = {"ASCEND_HOME_PATH": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run([shell, str(ENTRYPOINT), *command], env=variables, capture_output=True, text=True, check=True)


def test_the_toolkit_s_environment_is_a_script_of_bash_and_sees_no_argument(tmp_path: Path) -> None:
    """Its documentation says `source`; such scripts find their folder by BASH_SOURCE, and take options."""
    home = tmp_path / "cann-8.5.0"
    home.mkdir()
    (home / "set_env.sh").write_text(
        'here=$(dirname -- "${BASH_SOURCE[0]}")\n'
        'for option in "$@"; do case $option in --*) echo "unknown option $option" >&2; exit 1 ;; esac; done\n'
        'declare -x FROM="$here $#"\n'
    )
    done = enter(home, "sh", "-c", 'echo "$FROM, $1 and $2"', "sh", "--cxx_abi", "two words")
    assert (done.stdout, done.stderr) == (f"{home} 0, --cxx_abi and two words\n", "")


DRIVER = "libnvidia-ml.so.1"


@pytest.mark.parametrize(
    ("mounted", "cached", "paths"),
    [
        (None, False, ["/opt/grstack/no-driver"]),
        (None, True, []),  # NVIDIA's container toolkit
        ([DRIVER], False, ["MOUNTED"]),  # Google's clusters
        ([DRIVER], True, ["MOUNTED"]),
        ([], False, ["MOUNTED", "/opt/grstack/no-driver"]),
    ],
)
def test_the_driver_is_looked_for_where_clusters_mount_it(
    tmp_path: Path, mounted: list[str] | None, cached: bool, paths: list[str]
) -> None:
    place = tmp_path / "nvidia"
    for name in mounted or ():
        (place / "lib64").mkdir(parents=True)
        (place / "lib64" / name).touch()
    if mounted is not None:
        (place / "lib64").mkdir(parents=True, exist_ok=True)
    script = tmp_path / "entrypoint.sh"
    script.write_text(
        (ENTRYPOINT.parents[1] / "cuda/entrypoint.sh").read_text().replace("/usr/local/nvidia", str(place))
    )
    tools = tmp_path / "bin"
    tools.mkdir()
    line = f'echo "  {DRIVER} (libc6,x86-64) => /x"' if cached else "exit 0"
    (tools / "ldconfig").write_text(f"#!/bin/sh\n{line}\n")
    (tools / "ldconfig").chmod(0o755)
    done = subprocess.run(
        ["sh", str(script), "sh", "-c", 'echo "$LD_LIBRARY_PATH"; echo "$PATH"'],
        env={"PATH": f"{tools}:/usr/bin:/bin", "LD_LIBRARY_PATH": "/own"},
        capture_output=True,
        text=True,
        check=True,
    )
    libraries, path = done.stdout.splitlines()
    found = [str(place / "lib64") if part == "MOUNTED" else part for part in paths]
    assert [part for part in libraries.split(":") if part != "/own"] == found and "/own" in libraries
    assert (f"{place}/bin" in path.split(":")) is (mounted is not None)
