"""`pip install` in the image keeps to the locked versions, or says what does not fit. Offline."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from rich.console import Console

from grstack.choices import Choices
from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.execute import execute
from grstack.session import Session

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.image
OFFERED = {
    # a data frame library as it is: the newest release wants what the image does not have
    ("frames", "3.0"): ["numpy>=2.0"],
    ("frames", "2.2"): ["numpy>=1.23", "python-dateutil"],
    ("only-new", "1.0"): ["numpy>=2.0"],
    ("numpy", "2.2.0"): [],
    ("torch", "2.8.0"): [],
}


@pytest.fixture(scope="module")
def image() -> str:
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    s = Session(ROOT, Choices(), Console(quiet=True))
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    assert isinstance(s.engine, DockerEngine)
    return s.engine.image_id(s.plan)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)  # the image's user reads it
    for (name, version), needs in OFFERED.items():
        stem = f"{name.replace('-', '_')}-{version}"
        metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {n}" for n in needs)]
        with zipfile.ZipFile(tmp_path / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", "\n".join(metadata) + "\n")
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return tmp_path


def pip(image: str, wheels: Path, *words: str, env: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    argv = ["docker", "run", "--rm", "--network=none", f"--volume={wheels}:/wheels:ro", *(f"--env={e}" for e in env)]
    argv += [image, "pip", "install", "--no-index", "--find-links=/wheels", "--dry-run", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)


def test_the_newest_release_that_fits_is_taken(image: str, wheels: Path) -> None:
    done = pip(image, wheels, "frames")
    assert done.returncode == 0, done.stderr
    assert "Would install frames-2.2" in done.stdout and "numpy-2" not in done.stdout


@pytest.mark.parametrize("words", [("only-new",), ("numpy>=2",), ("torch==2.8.0",), ("--upgrade", "torch>=2.7")])
def test_what_does_not_fit_is_refused_and_names_the_locked_version(
    image: str, wheels: Path, words: tuple[str, ...]
) -> None:
    done = pip(image, wheels, *words)
    assert done.returncode != 0, done.stdout
    locked = "torch==2.6.0" if "torch" in words[-1] else "numpy==1.26.4"
    assert f"The user requested (constraint) {locked}" in done.stdout + done.stderr


def test_a_user_may_change_a_version_all_the_same(image: str, wheels: Path) -> None:
    done = pip(image, wheels, "frames", env=("PIP_CONFIG_FILE=/dev/null",))
    assert done.returncode == 0 and "frames-3.0" in done.stdout and "numpy-2.2.0" in done.stdout
