"""The options for devices, given to the real engine: what a process in the container then sees. No device is real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from grstack.choices import Choices
from grstack.engines import docker_cli
from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.execute import execute
from grstack.launch.access import LOCKED, Access
from grstack.launch.machine import Machine
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.image
LOOK = """
import json, os, resource
mounts = {line.split()[4]: line for line in open("/proc/self/mountinfo")}
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "groups": sorted(os.getgroups()),
    "home": os.path.expanduser("~"),
    "device": os.path.exists("/dev/loop-control"),
    "shm": os.statvfs("/dev/shm").f_frsize * os.statvfs("/dev/shm").f_blocks,
    "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
    "stack": resource.getrlimit(resource.RLIMIT_STACK)[0],
    "driver": [open(DRIVER).read(), " ro," in mounts[DRIVER]],
}))
"""


def test_a_container_has_what_was_given(tmp_path: Path) -> None:
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    s = Session(ROOT, Choices(), Console(quiet=True))
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    assert isinstance(s.engine, DockerEngine)
    driver = tmp_path / "version.info"
    driver.write_text("Version=0\n")
    tmp_path.chmod(0o755)
    # a device node that the kernel has on every host, and no container gets unasked
    access = Access(
        kind="npu",
        flavour="docker",
        ids=(0,),
        nodes=("/dev/loop-control",),
        files=(str(driver),),
        user="1234:1235",
        groups=(44,),
        env={"ASCEND_VISIBLE_DEVICES": "0"},
        locked=LOCKED if Machine().raises_limits else {},
    )
    program = LOOK.replace("DRIVER", repr(str(driver)))
    argv = docker_cli.run_argv(
        docker_cli.find_client(),
        image=s.engine.image_id(s.plan),
        argv=["python", "-c", program],
        volumes=[],
        env={},
        network="none",
        context=access,
    )
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["user"] == [1234, 1235] and 44 in seen["groups"] and seen["home"] == "/tmp"
    assert seen["device"] is True and seen["driver"] == ["Version=0\n", True]
    assert seen["shm"] == 16 << 30 and seen["stack"] == 64 << 20
    assert seen["memlock"] == -1 or not access.locked


def test_a_printed_line_does_what_it_says() -> None:
    """Typed as it stands, with quotes and a variable of the container's own. The image is that of the short name."""
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    for folder in (ROOT / "build/out", ROOT / "data"):
        folder.mkdir(parents=True, exist_ok=True)
    file = f"printed-{os.getpid()}"
    command = f"""printf '%s' "$GRSTACK_RUNS it's" > /out/{file}; test ! -w /source"""
    inv = [str(Path(sys.executable).parent / "inv"), "run", "--print", command]
    line = subprocess.run(inv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{line}\n{done.stderr}\ntype: inv build-image"
    written = ROOT / "build/out" / file
    try:
        assert written.read_text() == "/out it's" and written.stat().st_uid == os.getuid()
    finally:
        written.unlink()
