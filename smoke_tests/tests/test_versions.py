import subprocess
import sys
from pathlib import Path

import smoke_tests
from smoke_tests.checks.versions import differences, expected_versions, installed, installed_versions, plain_only

LOCK = {
    "packages": [
        {"name": "torch", "version": "2.6.0", "variant": "plain"},
        {"name": "torch", "version": "2.6.0+cpu", "variant": "cpu"},
        {"name": "nvidia-nccl-cu12", "version": "2.21.5", "plain_only": True},
        {"name": "torchrec", "version": "1.1.0", "installed": False},
        {"name": "typing_extensions", "version": "4.16.0"},
    ]
}
CUDA = plain_only(LOCK)
MANIFEST = {"files": {"torchrec": {"torchrec-1.1.0+npu-py311-none-any.whl": "ab"}, "twin": {"lib64/libhccl.so": "cd"}}}
RIGHT = {
    "torch": ["2.6.0"],
    "nvidia-nccl-cu12": ["2.21.5"],
    "torchrec": ["1.1.0+npu"],
    "typing-extensions": ["4.16.0"],
}


def test_what_is_right():
    expected = expected_versions(LOCK, MANIFEST)
    assert differences(expected, RIGHT, CUDA) == []
    # Of the +cpu build there are no CUDA libraries.
    cpu = {**RIGHT, "torch": ["2.6.0+cpu"]}
    del cpu["nvidia-nccl-cu12"]
    assert differences(expected, cpu, CUDA) == []
    del cpu["typing-extensions"]
    assert differences(expected, cpu, CUDA) == ["typing-extensions 4.16.0 is locked but not installed"]
    assert differences(expected, {**RIGHT, "pip": ["26"]}, CUDA) == []


def test_each_difference_is_named():
    wrong = {"torch": ["2.5.0"], "torchrec": ["1.1.0"], "fbgemm-gpu": ["1.9.0"], "nvidia-nccl-cu12": ["1", "2"]}
    found = {**RIGHT, **wrong}
    del found["typing-extensions"]
    assert differences(expected_versions(LOCK, MANIFEST), found, CUDA) == [
        "fbgemm-gpu 1.9.0 is installed but not locked",
        "nvidia-nccl-cu12 is installed 2 times: 1, 2",
        "torch is 2.5.0, locked is 2.6.0 or 2.6.0+cpu",
        "torchrec is 1.1.0, locked is 1.1.0+npu",
        "typing-extensions 4.16.0 is locked but not installed",
    ]


def test_packages_of_the_devel_variant_are_there_all_or_none():
    lock = {"packages": [*LOCK["packages"], *({"name": n, "version": "1"} for n in ("pytest", "pluggy"))]}
    expected, devel = expected_versions(lock, MANIFEST), {"pytest", "pluggy"}
    assert differences(expected, RIGHT, CUDA, devel) == []
    assert differences(expected, {**RIGHT, "pytest": ["1"], "pluggy": ["1"]}, CUDA, devel) == []
    half = {**RIGHT, "pytest": ["1"]}
    assert differences(expected, half, CUDA, devel) == ["pluggy 1 is locked but not installed"]
    assert len(differences(expected, RIGHT, CUDA)) == 2


def test_missing_cuda_library_of_the_plain_build():
    found = {name: value for name, value in RIGHT.items() if name != "nvidia-nccl-cu12"}
    expected = expected_versions(LOCK, MANIFEST)
    assert differences(expected, found, CUDA) == ["nvidia-nccl-cu12 2.21.5 is locked but not installed"]


def distribution(folder, name, version):
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_two_copies_are_seen(tmp_path):
    for folder, name, version in (("a", "one", "1"), ("a", "One", "2"), ("b", "one", "1"), ("c", "one", "3")):
        distribution(tmp_path / folder, name, version)
    found = installed_versions([str(tmp_path / "a"), str(tmp_path / "b")])
    assert {name: sorted(versions) for name, versions in found.items()} == {"one": ["1", "1", "2"]}


def test_every_folder_of_the_environment_and_no_other(tmp_path):
    """As with --engine none: torchrec and the plugin stand in a folder of their own, which PYTHONPATH names."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    components, added, vendored = tmp_path / "prefix/site-packages", tmp_path / "added", site / "setuptools/_vendor"
    distribution(site, "torch", "2.6.0")
    distribution(components, "torchrec", "1.1.0+npu")
    distribution(added, "by-pth", "1")
    (site / "added.pth").write_text(f"{added}\n")
    distribution(vendored, "zipp", "3")
    distribution(tmp_path / "work", "in-the-working-directory", "1")
    code = (
        f"import sys; sys.path.append({str(vendored)!r}); from smoke_tests.checks import versions;"
        "print(sorted(versions.installed_versions(versions.environment_folders())))"
    )
    source = Path(smoke_tests.__file__).parents[1]
    (tmp_path / "src").symlink_to(source)
    done = subprocess.run(
        [python, "-c", code],
        env={"PYTHONPATH": f"{components}:{tmp_path / 'src'}", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path / "work",
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "['by-pth', 'torch', 'torchrec']", done.stderr


def test_what_cann_brings_is_not_ours_to_lock_but_may_hide_nothing(tmp_path):
    """Its set_env.sh puts two folders of its Python packages first; `latest` holds links into the release."""
    release, latest = tmp_path / "8.3.RC1", tmp_path / "latest"
    distribution(release / "python/site-packages", "te", "0.4.0")
    distribution(release / "python/site-packages", "hccl", "0.1.0")
    distribution(tmp_path / "venv", "numpy", "1.26.4")
    distribution(tmp_path / "latest-no-more", "stray", "1")
    latest.mkdir()
    (latest / "python").symlink_to(release / "python")
    folders = [str(latest / "python/site-packages"), str(tmp_path / "venv"), str(tmp_path / "latest-no-more")]
    expected = {"numpy": {"1.26.4"}}
    assert installed(expected, folders, str(latest)) == {"numpy": ["1.26.4"], "stray": ["1"]}
    assert sorted(installed(expected, folders, "")) == ["hccl", "numpy", "stray", "te"]
    distribution(release / "python/site-packages", "numpy", "2.0")
    assert installed(expected, folders, str(latest))["numpy"] == ["1.26.4", "2.0"]
