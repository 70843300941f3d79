"""Locks: the committed ones against the pins, the resolver against an index with all the known traps."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from package_index import PackageIndex
from packaging.specifiers import SpecifierSet
from packaging.tags import sys_tags

from grstack import locks, spec
from grstack.errors import LockError, UnsupportedError, UsageError
from grstack.locks import Lock
from grstack.locks._wheels import best, ranking
from grstack.network import Settings
from grstack.spec import Versions

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = spec.load(ROOT / "versions.yaml")
COMBINATIONS = VERSIONS.combinations()

# Published hashes, taken from the package index by other means than the resolver.
TORCH_NPU = {
    ("3.10", "x86_64", ""): "36fbe05e19141ffd8a8103cdd0e298ca6e20283ff437e92eb5c978d7f2558105",
    ("3.11", "x86_64", ""): "7ff85f28a2a7146a99111d289eab19c9198b8dfd626e889ab71d49487c4414fa",
    ("3.10", "aarch64", ""): "3a751498997171349bcba2ae0461dacc8ac4d05b52880d11a08cc07116a0d060",
    ("3.11", "aarch64", ""): "35ae3e7884b8b33e36c90506dba5d6d31f74f400ae90f1cb0ecb56c114683975",
    ("3.10", "x86_64", "8.2.RC1"): "d9adfdbce7c61ef132546a54ad70d61879dd773f5c3592f374b13fad4711f0dc",
    ("3.11", "x86_64", "8.2.RC1"): "f6e2677a847c60a0ee91ddb3c0d244f53a13480f376113cc9e3816e69a189c0c",
    ("3.10", "aarch64", "8.2.RC1"): "f671a19506501ffb62b30ad36bac54ec0499f51c52e7c38118bbc77f68ab099c",
    ("3.11", "aarch64", "8.2.RC1"): "a93d65074486c41f26d664bad69924096074f434ac8aef304c47ae7525c1a446",
    ("3.10", "x86_64", "8.5.0"): "0459b98b11ead9a74c0f7f3dddd3c03613b66b2094ea39e40716c0e8c86f051f",
    ("3.11", "x86_64", "8.5.0"): "dc35b413cb90fabba9042945793ffebd2d65e530712a3fbf148833b83fa1da48",
    ("3.10", "aarch64", "8.5.0"): "eea3831f62c4bbaf1167868a9e1b37febe3497091ffe5d198eb304712051ce02",
    ("3.11", "aarch64", "8.5.0"): "b0bf71492871a0806ece206ae9a88b51ae10ab906f490eea9d7806eda04bef2a",
}
FBGEMM_CPU = {
    ("3.10", "x86_64"): "25da08e3a516a61a11cf470ebb3b5c292e8eff5d5ee98bd90d972b2d79d9fe84",
    ("3.11", "x86_64"): "ced7c0c1468d3451aff92ce2ba9689b455e732dc2ebd233b473379f8c88ef3d8",
    ("3.10", "aarch64"): "e027bb609fef113134532bef13a7f5ff81c1cd37badb43188b961961055694cc",
    ("3.11", "aarch64"): "26cad5eb6d85d840e3f832e93cd56c111ae45ffd2ccd0623ef85c9ab22981920",
}

# The makers' list for CANN 8.2 to 9.0. It has protobuf 3.20.x too, where the locks have TensorBoard's later one.
CANN_NEEDS = {
    "absl-py": "",
    "attrs": "",
    "cffi": ">=1.12.3",
    "cython": "",
    "decorator": ">=4.4.0",
    "numpy": ">=1.19.2,<2",
    "pathlib2": "",
    "protobuf": "",
    "psutil": "",
    "pyyaml": "",
    "requests": "",
    "scipy": "",
    "sympy": ">=1.5.1",
}


@pytest.mark.parametrize("combination", VERSIONS.locked(), ids=lambda item: locks.lock_name(*item))
def test_committed_lock_is_current_and_sorted(combination: tuple[str, str, str, str]) -> None:
    lock = locks.read(ROOT, *combination)
    locks.check(lock, VERSIONS)
    keys = [(package.name, package.variant != "plain") for package in lock.packages]
    assert keys == sorted(set(keys))
    text = locks.lock_path(ROOT, *combination).read_text(encoding="utf-8")
    assert text == lock.text()
    assert "://" not in text


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda item: locks.lock_name(*item))
def test_committed_lock_has_every_requirement_and_no_second_fbgemm(combination: tuple[str, str, str, str]) -> None:
    target, python, arch, cann = combination
    lock = locks.read(ROOT, *combination)
    versions = {package.name: package.version for package in lock.packages if package.variant == "plain"}
    for name, pin in VERSIONS.for_cann(target, cann).packages.items():
        locked = versions[name.lower().replace("_", "-")]
        assert pin[0] in "<>" or locked == pin
    assert sum(name.startswith("fbgemm-gpu") for name in versions) == 1
    if target == "npu":
        hashes = {package.name: package.sha256 for package in lock.packages}
        assert hashes["torch-npu"] == TORCH_NPU[python, arch, cann]
        assert hashes["fbgemm-gpu-cpu"] == FBGEMM_CPU[python, arch]


@pytest.mark.parametrize(
    "combination", [c for c in COMBINATIONS if c[0] == "npu"], ids=lambda item: locks.lock_name(*item)
)
def test_npu_lock_has_what_cann_s_programs_in_python_ask_for(combination: tuple[str, str, str, str]) -> None:
    lock = locks.read(ROOT, *combination)
    versions = {package.name: package.version for package in lock.packages if package.variant == "plain"}
    assert [name for name in CANN_NEEDS if name not in versions] == []
    assert [name for name, bounds in CANN_NEEDS.items() if versions[name] not in SpecifierSet(bounds)] == []


def test_cpu_build_takes_the_place_of_torch_and_leaves_its_cuda_libraries_out() -> None:
    lock = locks.read(ROOT, "npu", "3.11", "x86_64")
    plain = {package.name: package for package in lock.wheels("plain")}
    cpu = {package.name: package for package in lock.wheels("cpu")}
    assert lock.builds == ("cpu", "plain")
    assert cpu["torch"].filename == "torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl"
    assert plain["torch"].filename == "torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl"
    gone = set(plain) - set(cpu)
    assert "nvidia-cudnn-cu12" in gone
    assert all(name.startswith("nvidia-") for name in gone)
    assert cpu["triton"] == plain["triton"]  # the tests of gr_ops.cuda run in its interpreter
    assert len(lock.wheels("cpu")) == len(cpu)  # no package twice


def test_flags_of_the_npu_lock() -> None:
    packages = {package.name: package for package in locks.read(ROOT, "npu", "3.11", "x86_64").packages}
    assert {name for name, package in packages.items() if package.no_deps} == {"torch-npu", "torchrec"}
    assert {name for name, package in packages.items() if not package.installed} == {"torchrec"}


@pytest.mark.parametrize("python", VERSIONS.pythons.supported)
@pytest.mark.parametrize("arch", VERSIONS.architectures)
def test_the_second_triton_is_one_that_the_kernels_were_tested_with_and_needs_nothing(python: str, arch: str) -> None:
    (package,) = locks.read(ROOT, spec.GLUON, python, arch).packages
    text = (ROOT / "kernels/gr_ops/gr_ops/cuda/paths.py").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^TESTED = .*$", text, re.MULTILINE)
    assert package.name == "triton" and f'"{package.version}"' in tested


def test_tools_are_locked_with_hashes() -> None:
    for name in ("tools", "tools-dev"):
        text = (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")
        assert "://" not in text
        entries = text.replace("\\\n", "").splitlines()
        requirements = [line for line in entries if line and not line.startswith("#")]
        assert all("==" in line and "--hash=sha256:" in line for line in requirements)
        locked = {line.partition("==")[0] for line in requirements}
        assert {tool.lower() for tool in VERSIONS.tools.packages} <= locked


def test_lock_is_stale_after_a_change_of_its_target_only() -> None:
    lock = locks.read(ROOT, "npu", "3.11", "x86_64")
    text = (ROOT / "versions.yaml").read_text(encoding="utf-8")
    newer = spec.loads(text.replace('psutil: ">=6"', 'psutil: ">=7"'))  # of npu alone
    with pytest.raises(LockError, match="has changed since") as caught:
        locks.check(lock, newer)
    assert caught.value.next_command == "inv lock --only npu-py3.11-x86_64"
    locks.check(locks.read(ROOT, "cpu", "3.11", "x86_64"), newer)


@pytest.mark.parametrize("target", ["npu", "cpu"])
def test_a_common_package_belongs_to_every_target(target: str) -> None:
    text = (ROOT / "versions.yaml").read_text(encoding="utf-8")
    newer = spec.loads(text.replace('scipy: ">=1.13"', 'scipy: ">=1.14"'))
    with pytest.raises(LockError, match="has changed since"):
        locks.check(locks.read(ROOT, target, "3.11", "x86_64"), newer)
    own = text.replace("      torch: 2.6.0\n", "      torch: 2.6.0\n      numpy: 1.26.3\n")
    assert {str(spec.loads(own).targets[name].packages["numpy"]) for name in ("npu", "cpu")} == {"1.26.3"}
    assert str(spec.loads(own).targets["cuda"].packages["numpy"]) == "1.26.4"


def test_all_locks_are_checked_those_of_the_tools_too(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    names = locks.check_all(tmp_path, VERSIONS)
    assert sorted(names) == sorted(path.stem for path in (ROOT / "locks").iterdir())
    text = (ROOT / "versions.yaml").read_text(encoding="utf-8")
    for old, new, stale in (
        ('rich: ">=13.9"', 'rich: ">=14"', "tools"),
        ('ruff: ">=0.8"', 'ruff: ">=0.9"', "tools-dev"),
    ):
        assert text.count(old) == 1
        with pytest.raises(LockError, match="has changed since") as caught:
            locks.check_all(tmp_path, spec.loads(text.replace(old, new)))
        assert caught.value.next_command == f"inv lock --only {stale}"
    (tmp_path / "locks/npu-py3.9-x86_64.json").write_text("{}", encoding="utf-8")
    with pytest.raises(LockError, match="no such lock: npu-py3.9-x86_64.json"):
        locks.check_all(tmp_path, VERSIONS)
    (tmp_path / "locks/npu-py3.9-x86_64.json").unlink()
    (tmp_path / "locks/tools.txt").unlink()
    with pytest.raises(LockError, match="there is no lock"):
        locks.check_all(tmp_path, VERSIONS)


def test_impossible_combination_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no aarch64 wheel"):
        locks.lock_all(tmp_path, VERSIONS, ["cuda-py3.11-aarch64"])
    with pytest.raises(UsageError, match="unknown lock 'npu'.*npu-py3.10-aarch64"):
        locks.lock_all(tmp_path, VERSIONS, ["npu"])


def test_missing_and_malformed_locks(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="no lock"):
        locks.read(tmp_path, "npu", "3.11", "x86_64")
    data = json.loads(locks.lock_path(ROOT, "npu", "3.11", "x86_64").read_text(encoding="utf-8"))
    data["packages"][3]["sha256"] = "0"
    data["packages"][4]["version"] = "9.9"
    path = locks.lock_path(tmp_path, "npu", "3.11", "x86_64")
    path.parent.mkdir()
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(LockError) as caught:
        locks.read(tmp_path, "npu", "3.11", "x86_64")
    assert "packages.3.sha256" in caught.value.what
    assert "packages.4" in caught.value.what


# ranking of tags and choice of a wheel


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the tags of a Linux host are compared")
def test_ranking_of_this_machine_is_that_of_packaging() -> None:
    every = [tag for tag in sys_tags() if not tag.platform.startswith("musllinux")]
    expected = [tag for tag in every if not tag.platform.startswith("linux_")]
    best_platform = next(tag.platform for tag in expected if tag.platform.startswith("manylinux_"))
    _, major, minor, arch = best_platform.split("_", 3)
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    ranks = ranking(python, arch, f"{major}.{minor}")
    # packaging 26.3 moved the plain tags, which no index accepts, from the end to the front.
    ordered = sorted(ranks, key=lambda tag: ranks[tag])
    assert [tag for tag in ordered if not tag.platform.startswith("linux_")] == expected
    assert set(ordered) == set(every)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["a-1-py3-none-any.whl", "a-1-cp311-cp311-manylinux_2_17_x86_64.whl"], 1),  # binary before pure
        (["a-1-cp39-abi3-manylinux_2_28_x86_64.whl", "a-1-py3-none-any.whl"], 0),
        (["a-1-cp311-cp311-manylinux_2_36_x86_64.whl", "a-1-cp311-cp311-manylinux2014_x86_64.whl"], 1),  # glibc 2.35
        (["a-1-cp311-cp311-manylinux_2_17_aarch64.whl"], None),
        (["a-1-cp312-cp312-manylinux_2_17_x86_64.whl", "a-1-cp311-cp311-musllinux_1_2_x86_64.whl"], None),
        (["a-1-1-py3-none-any.whl", "a-1-2-py3-none-any.whl"], 1),  # the higher build number
        (["a-1-py311-none-any.whl", "a-1-py310-none-any.whl"], 0),
    ],
)
def test_best_wheel(files: list[str], expected: int | None) -> None:
    assert best(files, ranking("3.11", "x86_64", "2.35")) == (None if expected is None else files[expected])


# the resolver, on an index where a naive resolution fails or takes the wrong packages

SMALL = """
schema: 1
pythons: {default: "3.11", supported: ["3.11"]}
architectures: [x86_64, aarch64]
resolve: {before: 2026-01-01, glibc: "2.35"}
bases:
  debian-12: {image: debian, tag: "12", unpinned: a test, pythons: ["3.11"]}
socs: [ascend910b]
targets:
  npu:
    summary: a test
    packages: {torch: 2.6.0, torch_npu: 2.6.0.post3, torchrec: 1.1.0, numpy: 1.26.4, scipy: ">=1"}
    source_only: [torchrec]
    bad_metadata: {torch_npu: asks for +cpu, torchrec: asks for fbgemm-gpu}
    excludes: [fbgemm-gpu]
    platforms: {twin: {base: debian-12, cann: 8.3.RC1}}
variants:
  - package: torch
    version: 2.6.0
    variant: cpu
    local: cpu
    drops: ["nvidia-*"]
    wheels:
      torch-2.6.0+cpu-cp311-cp311-linux_x86_64.whl: HASH
      torch-2.6.0+cpu-cp311-cp311-manylinux_2_28_aarch64.whl: HASH
    targets: [npu]
compatibility:
  - {package: torch_npu, version: 2.6.0.post3, torch: 2.6.0, cann: 8.3.RC1, pythons: ["3.11"], source: its makers}
tools: {python: "3.10", packages: {scipy: "1.0"}}
""".replace("HASH", "0" * 64)


@pytest.fixture
def traps(index: PackageIndex) -> PackageIndex:
    for arch in ("x86_64", "aarch64"):
        cuda = ["nvidia-cudnn-cu12; platform_machine == 'x86_64'"]
        index.add(f"torch-2.6.0-cp311-cp311-manylinux_2_28_{arch}.whl", cuda)
        index.add(f"torch-2.6.0-cp310-cp310-manylinux_2_28_{arch}.whl", cuda)
        npu = "torch==2.6.0+cpu" if arch == "x86_64" else "torch==2.6.0"
        index.add(f"torch_npu-2.6.0.post3-cp311-cp311-manylinux_2_28_{arch}.whl", [npu])
        index.add(f"numpy-1.26.4-cp311-cp311-manylinux_2_17_{arch}.whl")
        index.add(f"numpy-2.4.0-cp311-cp311-manylinux_2_28_{arch}.whl")
    index.add("nvidia_cudnn_cu12-9.1-py3-none-any.whl")
    index.add("torchrec-1.1.0-py311-none-any.whl", ["fbgemm-gpu"])
    index.add("fbgemm_gpu-1.9.0-py3-none-any.whl", ["numpy"])
    index.add("scipy-1.0-py3-none-any.whl", ["numpy"])
    return index


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_resolver_steps_over_the_traps(traps: PackageIndex, settings: Settings, tmp_path: Path, arch: str) -> None:
    versions = spec.loads(SMALL)
    name = f"npu-py3.11-{arch}"
    (path,) = locks.lock_all(tmp_path, versions, [name], settings=settings)
    first = path.read_bytes()
    lock = locks.read(tmp_path, "npu", "3.11", arch)
    locks.check(lock, versions)
    expected = {
        "numpy": f"numpy-1.26.4-cp311-cp311-manylinux_2_17_{arch}.whl",
        "scipy": "scipy-1.0-py3-none-any.whl",
        "torch": f"torch-2.6.0-cp311-cp311-manylinux_2_28_{arch}.whl",
        "torch-npu": f"torch_npu-2.6.0.post3-cp311-cp311-manylinux_2_28_{arch}.whl",
        "torchrec": "torchrec-1.1.0-py311-none-any.whl",
    }
    if arch == "x86_64":
        expected["nvidia-cudnn-cu12"] = "nvidia_cudnn_cu12-9.1-py3-none-any.whl"
    assert {package.name: package.filename for package in lock.wheels("plain")} == expected
    assert [package.name for package in lock.packages if package.plain_only] == (
        ["nvidia-cudnn-cu12"] if arch == "x86_64" else []
    )
    locks.lock_all(tmp_path, versions, [name], settings=settings)
    assert path.read_bytes() == first


def test_no_solution_names_the_cause_and_writes_nothing(
    traps: PackageIndex, settings: Settings, tmp_path: Path
) -> None:
    versions = spec.loads(SMALL.replace('scipy: ">=1"', 'scipy: ">=2"'))
    with pytest.raises(LockError, match="scipy"):
        locks.lock_all(tmp_path, versions, settings=settings)
    assert not (tmp_path / "locks").exists()


def test_releases_after_the_date_are_not_seen(traps: PackageIndex, settings: Settings, tmp_path: Path) -> None:
    versions = spec.loads(SMALL.replace("before: 2026-01-01", "before: 2024-12-31"))  # the index says 2025-01-01
    with pytest.raises(LockError):
        locks.lock_all(tmp_path, versions, ["npu-py3.11-x86_64"], settings=settings)


def test_all_locks_and_no_others(traps: PackageIndex, settings: Settings, tmp_path: Path) -> None:
    versions: Versions = spec.loads(SMALL)
    old = locks.lock_path(tmp_path, "npu", "3.9", "x86_64")
    old.parent.mkdir()
    old.write_text('{"target": "npu", "python": "3.9", "arch": "x86_64"}', encoding="utf-8")
    locks.lock_all(tmp_path, versions, settings=settings)
    assert {path.name for path in (tmp_path / "locks").iterdir()} == {
        "npu-py3.11-x86_64.json",
        "npu-py3.11-aarch64.json",
        "tools.txt",
        "tools-dev.txt",
    }
    assert "scipy==1.0" in (tmp_path / "locks/tools.txt").read_text(encoding="utf-8")
    host = urlsplit(traps.url).netloc
    for path in (tmp_path / "locks").iterdir():
        assert host not in path.read_text(encoding="utf-8"), f"{path.name} names the index of this host"


def test_a_lock_refuses_a_file_that_is_not_its_package() -> None:
    good = {"name": "a", "version": "1", "filename": "a-1-py3-none-any.whl", "sha256": "0" * 64}
    Lock.model_validate({"target": "cpu", "python": "3.11", "arch": "x86_64", "inputs": "", "packages": [good]})
    for damage in ({"filename": "b-1-py3-none-any.whl"}, {"filename": "a-1.tar.gz"}, {"size": 1}, {"sha256": "x"}):
        with pytest.raises(ValueError, match="packages"):
            Lock.model_validate(
                {"target": "cpu", "python": "3.11", "arch": "x86_64", "inputs": "", "packages": [good | damage]}
            )


def test_only_locks_that_were_written_here_go(tmp_path: Path) -> None:
    """versions.yaml no longer has a combination; another file only has such a name."""
    (tmp_path / "locks").mkdir()
    old = next((ROOT / "locks").glob("npu-py*.json")).read_text(encoding="utf-8")
    content = json.loads(old)
    ours = tmp_path / "locks" / f"{locks.lock_name(content['target'], content['python'], content['arch'])}.json"
    mine = [tmp_path / "locks" / name for name in ("my-pytorch.json", "copy-of-npu-py3.11.json", "a-py.json")]
    for path, text in zip((ours, *mine), (old, "{}", old, "not JSON"), strict=True):
        path.write_text(text, encoding="utf-8")
    locks._remove_others(tmp_path, set())
    assert not ours.exists() and all(path.exists() for path in mine)
