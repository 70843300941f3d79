"""docker/npu/entrypoint.sh: which set_env.sh it takes, in the layouts of CANN's releases and of the twin."""

from __future__ import annotations

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
    done = subprocess.run(
        ["sh", str(ENTRYPOINT), "sh", "-c", "echo $FROM"],
        env={"ASCEND_HOME_PATH": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == (said, "")
