"""Downloads, from an index on localhost with pip itself."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from package_index import PackageIndex, make_wheel

from grstack import spec
from grstack.errors import DataError, DiskFull, HashMismatch, NetworkError, UsageError
from grstack.fetch import WheelCache, choose_build, fetch_data, fetch_wheels
from grstack.fetch import _wheels as wheels_module
from grstack.locks import Lock, Package
from grstack.network import Settings

ROOT = Path(__file__).resolve().parents[2]


def package(filename: str, sha256: str, **more: object) -> Package:
    name, version = filename.split("-")[:2]
    return Package.model_validate(
        {"name": name.replace("_", "-"), "version": version, "filename": filename, "sha256": sha256, **more}
    )


def lock_of(*packages: Package, arch: str = "x86_64") -> Lock:
    return Lock(target="npu", python="3.11", arch=arch, inputs="", packages=packages)


@pytest.fixture
def lock(index: PackageIndex) -> Lock:
    """Each kind of tag that the real locks have, for another architecture than most hosts'."""
    files = [
        "pure-1.0-py3-none-any.whl",
        "per_python-1.1.0-py311-none-any.whl",
        "binary-2.0-cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64.whl",
        "stable_abi-3.0-cp39-abi3-manylinux_2_28_aarch64.whl",
        "tagged-4.0-py3-none-manylinux2014_aarch64.whl",
    ]
    return lock_of(*(package(file, index.add(file)) for file in files), arch="aarch64")


def whole(path: Path, wheel: Package) -> bool:
    return hashlib.sha256(path.read_bytes()).hexdigest() == wheel.sha256


def test_fetches_the_locked_files(index: PackageIndex, settings: Settings, lock: Lock, tmp_path: Path) -> None:
    index.add("binary-2.0-cp311-cp311-manylinux_2_17_x86_64.whl")  # never asked for
    index.add("pure-1.1-py3-none-any.whl")
    paths = fetch_wheels(lock, tmp_path, settings)
    assert list(paths) == [wheel.filename for wheel in lock.packages]
    assert all(whole(paths[wheel.filename], wheel) for wheel in lock.packages)
    assert all(path.name == filename for filename, path in paths.items())
    assert sorted(index.downloads) == sorted(paths)


def test_cached_wheels_ask_no_index(index: PackageIndex, settings: Settings, lock: Lock, tmp_path: Path) -> None:
    first = fetch_wheels(lock, tmp_path, settings)
    index.close()
    assert fetch_wheels(lock, tmp_path, settings) == first


def test_cached_wheels_are_not_hashed_again(
    settings: Settings, lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_wheels(lock, tmp_path, settings)
    monkeypatch.setattr("grstack.fetch._cache.sha256_of", lambda path: pytest.fail(f"hashed {path.name}"))
    fetch_wheels(lock, tmp_path, settings)


def test_a_touched_file_is_hashed_and_kept(index: PackageIndex, settings: Settings, lock: Lock, tmp_path: Path) -> None:
    paths = fetch_wheels(lock, tmp_path, settings)
    os.utime(paths[lock.packages[0].filename], (1, 1))
    index.downloads.clear()
    fetch_wheels(lock, tmp_path, settings)
    assert index.downloads == []


def test_a_damaged_file_is_fetched_again(index: PackageIndex, settings: Settings, lock: Lock, tmp_path: Path) -> None:
    paths = fetch_wheels(lock, tmp_path, settings)
    wheel = lock.packages[2]
    paths[wheel.filename].write_bytes(b"half")
    index.downloads.clear()
    assert whole(fetch_wheels(lock, tmp_path, settings)[wheel.filename], wheel)
    assert index.downloads == [wheel.filename]


@pytest.mark.parametrize("index_lies", [False, True])
def test_wrong_hash_stops_names_the_file_and_keeps_nothing(
    index: PackageIndex, settings: Settings, lock: Lock, tmp_path: Path, index_lies: bool
) -> None:
    """The index serves another file under the locked name; once it even states the locked hash for it."""
    bad = lock.packages[0]
    index.add(bad.filename, files={"pure.py": b"changed"})
    if index_lies:
        index.claimed[bad.filename] = bad.sha256
    with pytest.raises(HashMismatch) as caught:
        fetch_wheels(lock, tmp_path, settings)
    assert bad.filename in caught.value.what
    assert bad.sha256 in caught.value.what
    kept = [path.name for path in tmp_path.rglob("*.whl")]
    assert bad.filename not in kept
    assert not WheelCache(tmp_path).path(bad).parent.exists()


def test_the_cache_itself_refuses_a_wrong_file(tmp_path: Path) -> None:
    wheel = package("pure-1.0-py3-none-any.whl", "0" * 64)
    file = tmp_path / wheel.filename
    file.write_bytes(b"x")
    with pytest.raises(HashMismatch, match=hashlib.sha256(b"x").hexdigest()):
        WheelCache(tmp_path / "cache").add(wheel, file)
    assert not file.exists()
    assert not list(tmp_path.rglob("*.whl"))


def test_what_is_not_on_the_index(settings: Settings, tmp_path: Path, index: PackageIndex) -> None:
    wheel = package("absent-1.0-py3-none-any.whl", "0" * 64)
    with pytest.raises(NetworkError, match="absent-1.0-py3-none-any.whl: the package index does not give it"):
        fetch_wheels(lock_of(wheel), tmp_path, settings)


def test_unreachable_index(clean_network: None, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # taken but not listening: refused at once
        port = free.getsockname()[1]
        settings = Settings(index_url=f"http://user:s3cret@127.0.0.1:{port}/simple/")
        with pytest.raises(NetworkError) as caught:
            fetch_wheels(lock_of(package("pure-1.0-py3-none-any.whl", "0" * 64)), tmp_path, settings)
    assert "cannot be reached" in caught.value.what
    assert "s3cret" not in str(caught.value)


def test_full_disk(settings: Settings, lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", no_room)
    with pytest.raises(DiskFull) as caught:
        fetch_wheels(lock, tmp_path, settings)
    assert caught.value.next_command.startswith("df -h")


def test_an_interrupted_run_leaves_no_half_wheel_and_the_next_one_continues(
    index: PackageIndex, settings: Settings, lock: Lock, tmp_path: Path
) -> None:
    """SIGKILL in the middle of a download: a real process, killed while the index keeps it waiting."""
    slow = lock.packages[0].filename
    index.delay[slow] = 30.0
    script = (
        "import sys; from pathlib import Path; from grstack.fetch import fetch_wheels;"
        "from grstack.locks import Lock; from grstack.network import Settings;"
        "fetch_wheels(Lock.model_validate_json(sys.argv[1]), Path(sys.argv[2]),"
        "Settings(index_url=sys.argv[3], no_proxy='127.0.0.1'))"
    )
    argv = [sys.executable, "-c", script, lock.model_dump_json(), str(tmp_path), settings.index_url or ""]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cache = WheelCache(tmp_path)
    others = lock.packages[1:]
    try:
        deadline = time.monotonic() + 60
        while not (slow in index.downloads and all(cache.find(wheel) for wheel in others)):
            assert time.monotonic() < deadline, "the download did not get that far"
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert not cache.path(lock.packages[0]).exists()
    index.delay.clear()
    index.downloads.clear()
    paths = fetch_wheels(lock, tmp_path, settings)
    assert whole(paths[slow], lock.packages[0])
    assert index.downloads == [slow]
    assert not list(cache.staging.iterdir())


# the +cpu build of torch


@pytest.fixture
def torch_lock(index: PackageIndex) -> Lock:
    plain = "torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl"
    cpu = "torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl"
    cuda = "nvidia_cudnn_cu12-9.1-py3-none-any.whl"
    return lock_of(
        package(cuda, index.add(cuda), plain_only=True),
        package(plain, index.add(plain)),
        package(cpu, index.add(cpu), variant="cpu"),
    )


def test_cpu_build_is_taken_where_an_index_has_it(
    index: PackageIndex, settings: Settings, torch_lock: Lock, tmp_path: Path
) -> None:
    paths = fetch_wheels(torch_lock, tmp_path, settings)
    assert list(paths) == ["torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl"]
    assert index.downloads == list(paths)
    index.close()
    assert choose_build(torch_lock, tmp_path, settings) == "cpu"  # cached: nothing is asked


@pytest.fixture
def no_torch_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's own indexes are asked for real, the one of the PyTorch project is not: tests have no network."""
    original = wheels_module.Runner.capture

    def capture(self: wheels_module.Runner, argv: list[str], **options: object) -> str:
        if "--torch-backend" in argv:
            raise wheels_module.CommandFailed(argv, 2, ["dns error"], None)
        return original(self, argv, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(wheels_module.Runner, "capture", capture)


def test_plain_build_where_no_index_has_the_cpu_one(
    index: PackageIndex, settings: Settings, torch_lock: Lock, tmp_path: Path, no_torch_index: None
) -> None:
    del index.wheels["torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl"]
    paths = fetch_wheels(torch_lock, tmp_path, settings)
    assert sorted(paths) == ["nvidia_cudnn_cu12-9.1-py3-none-any.whl", "torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl"]


def test_a_cpu_wheel_of_another_hash_is_not_taken(
    index: PackageIndex, settings: Settings, torch_lock: Lock, tmp_path: Path, no_torch_index: None
) -> None:
    index.add("torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl", files={"torch.py": b"other"})
    assert choose_build(torch_lock, tmp_path, settings) == "plain"


def test_build_can_be_forced(index: PackageIndex, settings: Settings, torch_lock: Lock, tmp_path: Path) -> None:
    plain = Settings(index_url=index.url, torch_build="plain", no_proxy="127.0.0.1")
    assert len(fetch_wheels(torch_lock, tmp_path, plain)) == 2
    assert choose_build(torch_lock, tmp_path, settings) == "plain"  # a cached torch is kept
    cpu = Settings(index_url=index.url, torch_build="cpu", no_proxy="127.0.0.1")
    assert len(fetch_wheels(torch_lock, tmp_path, cpu)) == 1


# data sets

MEMBERS = {"toy.inter": b"user_id:token\n1\n", "toy.item": b"item_id:token\n7\n"}


@pytest.fixture
def repository(tmp_path: Path, index: PackageIndex, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one data set, in a wheel on the index."""
    filename = "toys-1.0-py3-none-any.whl"
    files = {f"toys/data/{name}": data for name, data in MEMBERS.items()} | {"toys/data/toy.kg": b"not asked for"}
    sha256 = index.add(filename, files=files)
    members = "".join(f"      {name}: {hashlib.sha256(data).hexdigest()}\n" for name, data in MEMBERS.items())
    text = (ROOT / "versions.yaml").read_text(encoding="utf-8")
    text = text.replace(
        "datasets:\n",
        f"datasets:\n  toy:\n    summary: two files\n    package: toys\n    version: 1.0\n    wheel: {filename}\n"
        f"    sha256: {sha256}\n    folder: toys/data\n    members:\n{members}",
        1,
    )
    root = tmp_path / "repository"
    root.mkdir()
    (root / "versions.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("HOME", str(tmp_path))
    return root


def test_fetch_data(repository: Path, index: PackageIndex, tmp_path: Path) -> None:
    folder = fetch_data(repository, "toy", tmp_path / "data")
    assert folder == tmp_path / "data/toy"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == MEMBERS
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["toy"]
    index.close()
    assert fetch_data(repository, "toy", tmp_path / "data") == folder


def test_fetch_data_says_what_it_does(
    repository: Path, index: PackageIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = "toys-1.0-py3-none-any.whl"
    fetch_data(repository, "toy", tmp_path / "data")
    assert capsys.readouterr().err.splitlines() == [f"toy: downloading {wheel}", f"toy: unpacking {wheel}"]
    brought = tmp_path / "brought.whl"
    brought.write_bytes(index.wheels[wheel])
    fetch_data(repository, "toy", tmp_path / "more", from_file=brought)
    assert capsys.readouterr().err.splitlines() == ["toy: unpacking brought.whl"]


def test_fetch_data_from_a_file(repository: Path, index: PackageIndex, tmp_path: Path) -> None:
    wheel = tmp_path / "brought.whl"
    wheel.write_bytes(index.wheels["toys-1.0-py3-none-any.whl"])
    index.close()
    folder = fetch_data(repository, "toy", tmp_path / "data", from_file=wheel)
    assert (folder / "toy.item").read_bytes() == MEMBERS["toy.item"]
    assert wheel.exists()


def test_fetch_data_refuses_another_wheel(repository: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "brought.whl"
    wheel.write_bytes(make_wheel("toys-1.0-py3-none-any.whl"))
    with pytest.raises(HashMismatch, match=r"toys-1\.0-py3-none-any\.whl"):
        fetch_data(repository, "toy", tmp_path / "data", from_file=wheel)
    assert list((tmp_path / "data").iterdir()) == []


def test_fetch_data_checks_each_member(repository: Path, tmp_path: Path) -> None:
    path = repository / "versions.yaml"
    good = hashlib.sha256(MEMBERS["toy.item"]).hexdigest()
    path.write_text(path.read_text(encoding="utf-8").replace(good, "0" * 64), encoding="utf-8")
    with pytest.raises(HashMismatch, match="toy.item"):
        fetch_data(repository, "toy", tmp_path / "data")
    path.write_text(path.read_text(encoding="utf-8").replace("toy.item", "toy.gone"), encoding="utf-8")
    with pytest.raises(DataError, match=r"has no toys/data/toy\.gone"):
        fetch_data(repository, "toy", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_a_changed_data_folder_is_named_and_left_alone(repository: Path, tmp_path: Path) -> None:
    folder = fetch_data(repository, "toy", tmp_path / "data")
    (folder / "toy.inter").write_bytes(b"mine")
    with pytest.raises(HashMismatch) as caught:
        fetch_data(repository, "toy", tmp_path / "data")
    assert caught.value.where == str(folder / "toy.inter")
    assert (folder / "toy.inter").read_bytes() == b"mine"
    shutil.rmtree(folder)
    fetch_data(repository, "toy", tmp_path / "data")


def test_unknown_data_set_and_file(tmp_path: Path) -> None:
    names = ", ".join(sorted(spec.load(ROOT / "versions.yaml").datasets))
    with pytest.raises(UsageError, match=f"unknown data set 'ml-1t'; valid: {names}"):
        fetch_data(ROOT, "ml-1t", tmp_path)
    with pytest.raises(UsageError, match="is not a file"):
        fetch_data(ROOT, "ml-100k", tmp_path, from_file=tmp_path / "absent.whl")


def test_what_others_have_in_the_cache_stays(
    index: PackageIndex, settings: Settings, lock: Lock, tmp_path: Path
) -> None:
    """GRSTACK_CACHE may be a folder that they use too."""
    wheel = lock.packages[0]
    mine = [tmp_path / "tmp/mine.txt", tmp_path / wheel.sha256 / "notes.txt"]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    (tmp_path / wheel.sha256 / wheel.filename).write_bytes(b"half")
    assert all(map(whole, fetch_wheels(lock, tmp_path, settings).values(), lock.packages))
    assert all(path.read_text() == "mine" for path in mine)
