"""The recipe: the series applies to the locked source and to nothing else; the wheel is reproducible."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import build_wheel
import pytest
import strict_patch

from conftest import PATCHES

SERIES = strict_patch.read_series(PATCHES)


@pytest.fixture
def source(upstream_tree: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(upstream_tree, tmp_path / "source"))


def patched_hunks() -> list[tuple[str, str, int]]:
    """(patch, file, line of the first old line) of each hunk that has old lines in the release itself."""
    seen: set[str] = set()
    hunks = []
    for patch in SERIES:
        for item in strict_patch.parse(patch):
            if not item.creates and item.path not in seen:
                hunks += [(patch.name, item.path, hunk.start) for hunk in item.hunks]
            seen.add(item.path)  # a later patch may also change what an earlier one created
    return hunks


def test_every_patch_says_why() -> None:
    for patch in SERIES:
        header = patch.read_text().split("---\n", 1)[0].strip()
        title, _, reason = header.partition("\n\n")
        assert title and "\n" not in title and len(reason) > 100, f"{patch.name} has no reason in its header"


def test_series_applies(source: Path) -> None:
    written = strict_patch.apply_series(PATCHES, source)
    assert "torchrec/distributed/npu_embedding_kernel.py" in written
    for path in written:
        if path.endswith(".py"):
            compile((source / path).read_text(), path, "exec")


def test_agrees_with_gnu_patch(source: Path, tmp_path: Path) -> None:
    """Independent reference: GNU patch, which here may neither guess nor ask, makes the same files."""
    other = shutil.copytree(source, tmp_path / "gnu")
    for patch in SERIES:
        argv = ["patch", "-p1", "--fuzz=0", "--batch", "--forward", "--no-backup-if-mismatch", f"--input={patch}"]
        done = subprocess.run(argv, cwd=other, capture_output=True, text=True)
        assert done.returncode == 0 and "offset" not in done.stdout, done.stdout + done.stderr
    strict_patch.apply_series(PATCHES, source)
    assert {p.relative_to(source) for p in source.rglob("*")} == {p.relative_to(other) for p in other.rglob("*")}
    for path in source.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (other / path.relative_to(source)).read_bytes(), path


@pytest.mark.parametrize(("patch", "path", "start"), patched_hunks())
def test_one_changed_character_in_context_fails(source: Path, patch: str, path: str, start: int) -> None:
    lines = (source / path).read_text().splitlines(keepends=True)
    line = next(n for n in range(start - 1, len(lines)) if lines[n].strip())
    lines[line] = ("#" if lines[line][0] != "#" else "!") + lines[line][1:]
    (source / path).write_text("".join(lines))
    with pytest.raises(strict_patch.PatchError) as error:
        strict_patch.apply_series(PATCHES, source)
    assert patch in str(error.value) and path in str(error.value) and re.search(r"hunk \d+", str(error.value))


def test_one_changed_character_outside_the_hunks_fails(source: Path) -> None:
    path = source / "torchrec/distributed/model_parallel.py"
    data = path.read_bytes()
    path.write_bytes(data[:-2] + b"#" + data[-1:])
    with pytest.raises(strict_patch.PatchError, match="model_parallel.py.*outside hunks 1"):
        strict_patch.apply_series(PATCHES, source)


def test_shifted_source_fails(source: Path) -> None:
    """`patch` would accept this with an offset."""
    path = source / "torchrec/distributed/shard.py"
    path.write_text("\n" + path.read_text())
    with pytest.raises(strict_patch.PatchError, match="shard.py: hunk 1"):
        strict_patch.apply_series(PATCHES, source)


def test_a_failed_patch_writes_nothing(source: Path) -> None:
    victim = source / "torchrec/distributed/planner/utils.py"
    victim.write_text(victim.read_text().replace('{"cuda", "mtia"}', '{"cuda"}'))
    before = {path: path.read_bytes() for path in source.rglob("*.py")}
    (patch,) = (patch for patch in SERIES if patch.name.endswith("-npu-planner.patch"))
    with pytest.raises(strict_patch.PatchError, match=r"planner/utils.py: hunk 1"):
        strict_patch.apply_patch(patch, source)
    assert before == {path: path.read_bytes() for path in source.rglob("*.py")}


def test_same_input_same_bytes(upstream_wheel: Path, tmp_path: Path) -> None:
    wheels = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        wheels.append(build_wheel.build(upstream_wheel, PATCHES, tmp_path / name, 1_700_000_000))
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


def test_wheel_is_whole(upstream_wheel: Path, tmp_path: Path) -> None:
    wheel = build_wheel.build(upstream_wheel, PATCHES, tmp_path, 0)
    assert re.fullmatch(r"torchrec-1\.1\.0\+npu-py3\d+-none-any\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        info = "torchrec-1.1.0+npu.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        assert "\nVersion: 1.1.0+npu\n" in metadata
        requires = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
        upstream = ["torchmetrics==1.0.3", "tqdm", "pyre-extensions", "iopath"]
        assert requires == ["fbgemm-gpu-cpu==1.1.0", *upstream], "a restriction was added or lost"
        assert "__version__ = '1.1.0+npu'" in archive.read("torchrec/version.py").decode()
        rows = list(csv.reader(io.StringIO(archive.read(f"{info}/RECORD").decode())))
        assert {row[0] for row in rows} == set(archive.namelist())
        for name, digest, size in rows:
            if name != f"{info}/RECORD":
                data = archive.read(name)
                assert (digest, int(size)) == (build_wheel.record_hash(data), len(data))


def test_tampered_wheel_is_refused(upstream_wheel: Path, tmp_path: Path) -> None:
    bad = tmp_path / upstream_wheel.name
    with zipfile.ZipFile(upstream_wheel) as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data + b"#" if name == "torchrec/types.py" else data)
    with pytest.raises(build_wheel.WheelError, match="torchrec/types.py"):
        build_wheel.build(bad, PATCHES, tmp_path, 0)
    assert not list(tmp_path.glob("*+npu*"))


def test_missing_wheel_names_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(build_wheel.WheelError, match=r"torchrec-\*-py310-none-any.whl"):
        build_wheel.find_wheel(tmp_path, "3.10")
