from smoke_tests.checks.versions import differences, expected_versions, installed_versions

LOCK = {
    "packages": [
        {"name": "torch", "version": "2.6.0", "variant": "plain"},
        {"name": "torch", "version": "2.6.0+cpu", "variant": "cpu"},
        {"name": "nvidia-nccl-cu12", "version": "2.21.5"},
        {"name": "torchrec", "version": "1.1.0", "installed": False},
        {"name": "typing_extensions", "version": "4.16.0"},
    ]
}
MANIFEST = {"files": {"torchrec": {"torchrec-1.1.0+npu-py311-none-any.whl": "ab"}, "twin": {"lib64/libhccl.so": "cd"}}}
RIGHT = {
    "torch": ["2.6.0"], "nvidia-nccl-cu12": ["2.21.5"], "torchrec": ["1.1.0+npu"], "typing-extensions": ["4.16.0"],
}  # fmt: skip


def test_what_is_right():
    expected = expected_versions(LOCK, MANIFEST)
    assert differences(expected, RIGHT) == []
    # Of the +cpu build there are no CUDA libraries.
    cpu = {**RIGHT, "torch": ["2.6.0+cpu"]}
    del cpu["nvidia-nccl-cu12"]
    assert differences(expected, cpu) == []
    assert differences(expected, {**RIGHT, "pip": ["26"]}) == []


def test_each_difference_is_named():
    wrong = {"torch": ["2.5.0"], "torchrec": ["1.1.0"], "fbgemm-gpu": ["1.9.0"], "nvidia-nccl-cu12": ["1", "2"]}
    found = {**RIGHT, **wrong}
    del found["typing-extensions"]
    assert differences(expected_versions(LOCK, MANIFEST), found) == [
        "fbgemm-gpu 1.9.0 is installed but not locked",
        "nvidia-nccl-cu12 is installed 2 times: 1, 2",
        "torch is 2.5.0, locked is 2.6.0 or 2.6.0+cpu",
        "torchrec is 1.1.0, locked is 1.1.0+npu",
        "typing-extensions 4.16.0 is locked but not installed",
    ]


def test_missing_cuda_library_of_the_plain_build():
    found = {name: value for name, value in RIGHT.items() if name != "nvidia-nccl-cu12"}
    expected = expected_versions(LOCK, MANIFEST)
    assert differences(expected, found) == ["nvidia-nccl-cu12 2.21.5 is locked but not installed"]


def test_two_copies_are_seen_and_vendored_ones_are_not(tmp_path, monkeypatch):
    for folder in ("site/one-1.dist-info", "site/One-2.dist-info", "site/setuptools/_vendor/zipp-3.dist-info"):
        (tmp_path / folder).mkdir(parents=True)
        name, version = folder.split("/")[-1].removesuffix(".dist-info").split("-")
        (tmp_path / folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site/setuptools/_vendor"))
    found = installed_versions([str(tmp_path / "site")])
    assert {name: sorted(versions) for name, versions in found.items()} == {"one": ["1", "2"]}
