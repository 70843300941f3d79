"""What the tests of the images share: each is built by the command, run by `docker run`, and promises the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INV = Path(sys.executable).parent / "inv"
LABELS = {"title", "description", "licenses", "version", "base.name", "created", "revision"}
FOLDERS = "/ /opt/grstack /opt/grstack/venv /usr /etc /home /var /root"


def inv(*words: str) -> None:
    subprocess.run([str(INV), *words], cwd=ROOT, check=True)


def docker(*words: str) -> subprocess.CompletedProcess[str]:
    line = ["docker", "run", "--pull=never", "--rm", *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=600)


def config_of(image: str) -> dict[str, Any]:
    text = subprocess.run(["docker", "image", "inspect", image], capture_output=True, text=True, check=True).stdout
    config: dict[str, Any] = json.loads(text)[0]["Config"]
    return config


def assert_labels_and_user(image: str) -> None:
    """OCI's labels, ours of the image's content, and a user who is not root."""
    config = config_of(image)
    assert config["User"] == "1000:1000"
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert {name for name, value in labels.items() if value} >= LABELS
    assert config["Labels"]["grstack.key"].startswith(labels["version"])


def writable_folders(image: str, *more: str) -> list[str]:
    """Which of the image's folders its user can write to, of those that are not meant for it."""
    folders = " ".join((FOLDERS, *more))
    tried = f"for p in {folders}; do touch $p/x 2>/dev/null && echo $p; done; touch /out/x /tmp/x"
    done = docker("--network=none", image, "sh", "-c", tried)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def modules_without_tests(image: str) -> int:
    """How many modules the plain image imports; asserts that it has no package of tests and misses none."""
    program = Path(__file__).parent / "without_tests.py"
    done = docker("--network=none", f"--volume={program}:/without_tests.py:ro", image, "python", "/without_tests.py")
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])
