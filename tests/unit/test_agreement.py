"""What stands in two places because neither can read the other says the same in both."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

from invoke.collection import Collection
from packaging.requirements import Requirement

import tasks
from grstack import ascend, spec, suites

ROOT = Path(__file__).resolve().parents[2]
SPEC = spec.load(ROOT / "versions.yaml")


def test_twin_says_the_cann_version_that_it_stands_for() -> None:
    """torch_npu reads version.info and refuses what it does not pair with; versions.yaml checks that pair."""
    info = (ROOT / "twin/runtime/version.info").read_text(encoding="utf-8")
    platforms = SPEC.targets["npu"].platforms
    assert re.findall(r"^Version=(.*)$", info, re.MULTILINE) == [platforms["twin"].cann]
    assert platforms["twin"].cann == platforms["cann"].cann


def test_the_twin_s_defaults_are_those_of_versions_yaml() -> None:
    """Its C++ and its builder run without this repository's files."""
    settings = (ROOT / "twin/runtime/acl/settings.cpp").read_text(encoding="utf-8")
    assert re.findall(r'Variable\("TWIN_CANN_VERSION"\)\.value_or\("([^"]+)"\)', settings) == [
        SPEC.targets["npu"].platforms["twin"].cann
    ]
    builder = ast.parse((ROOT / "twin/opbuild/opbuild.py").read_text(encoding="utf-8"))
    socs = [
        ast.literal_eval(node.value)
        for node in builder.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "KNOWN_SOCS"
    ]
    assert socs == [SPEC.socs]


def test_an_image_has_the_variables_of_a_local_prefix() -> None:
    """Dockerfiles cannot read grstack/ascend.py."""
    text = (ROOT / "docker/npu/Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    home = re.search(r"^ARG ASCEND_HOME=(.+)$", text, re.MULTILINE)
    assert home is not None
    text = text.replace("${ASCEND_HOME}", home[1])
    environment = dict(
        word.split("=", 1)
        for line in text.splitlines()
        if line.startswith("ENV ")
        for word in shlex.split(line.removeprefix("ENV "))
    )
    assert {name: environment[name] for name in ascend.variables("")} == ascend.variables(ascend.HOME)
    assert environment["PATH"].split(":") == [*ascend.binaries(ascend.HOME), "${PATH}"]
    libraries = environment["LD_LIBRARY_PATH"].split(":")
    assert libraries[0] == f"{ascend.HOME}/lib64"
    assert all(folder.startswith(f"{ascend.DRIVER}/") for folder in libraries[1:])
    tool = [path for path in (ROOT / "grstack").rglob("*.py") if "tests" not in path.parts]
    assert [path.name for path in tool if ascend.TOOLKIT in path.read_text(encoding="utf-8")] == ["ascend.py"]


def test_the_twins_wheel_asks_for_the_versions_that_are_locked() -> None:
    """ascend_twin is installed without this repository, so it carries what versions.yaml says."""
    tree = ast.parse((ROOT / "twin/python/ascend_twin/info.py").read_text(encoding="utf-8"))
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
    }
    packages = {name: str(version) for name, version in SPEC.targets["npu"].packages.items()}
    assert constants["PACKAGES"] == ("torch", "torch_npu")
    words = [word for command in constants["INSTALL"] for word in shlex.split(command.format_map(packages))]
    wanted = [Requirement(word) for word in words if word not in ("pip", "install", "--no-deps")]
    assert {"torch", "torch_npu"} < {requirement.name for requirement in wanted} <= packages.keys()
    for requirement in wanted:
        locked = packages[requirement.name]
        assert str(requirement.specifier) in ("", locked, f"=={locked}"), requirement
    page = (ROOT / "docs/twin.md").read_text(encoding="utf-8")
    assert all(command.format_map(packages) in page for command in constants["INSTALL"])
    project = (ROOT / "twin/python/pyproject.toml").read_text(encoding="utf-8")
    oldest = min(SPEC.pythons.supported, key=lambda version: int(version.split(".")[1]))
    assert f'requires-python = ">={oldest}"' in project


def test_commands_that_messages_name_exist() -> None:
    """`inv X` in a message, a docstring or a document is a task that can be typed."""
    known = set(Collection.from_module(tasks).task_names)
    unknown = []
    for path in sources():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for name in re.findall(r"\binv ([a-z][a-z-]*)", line):
                if name not in known:
                    unknown.append(f"{path.relative_to(ROOT)}:{number}: inv {name}")
    assert unknown == []


def test_the_readme_s_figures_and_names_are_those_of_versions_yaml() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    packages = SPEC.targets["npu"].packages
    assert f"torch {packages['torch']}, torch_npu {packages['torch_npu']}" in text
    assert f"fbgemm_gpu {packages['fbgemm_gpu_cpu']}, torchrec {packages['torchrec']}+npu" in text
    assert f"torchrec ({packages['torchrec']}+npu)" in (ROOT / "docs/torchrec-cpu.md").read_text(encoding="utf-8")
    unverified = {name.partition("-")[0] for name, data in SPEC.datasets.items() if getattr(data, "unverified", None)}
    assert (
        unverified == {"amzn"} and "MovieLens and KuaiRand, verified by the published hash; Amazon, over https" in text
    )


def sources() -> list[Path]:
    kinds = ("*.py", "*.md", "*.sh", "*.yaml", "Makefile", "Dockerfile")
    folders = (
        "grstack",
        "gr_model",
        "smoke_tests",
        "embeddings",
        "kernels",
        "recipes",
        "twin",
        "docs",
        "docker",
        "benchmarks",
    )
    beside = [ROOT / name for name in ("README.md", "Makefile", "versions.yaml", "bootstrap.sh")]
    return beside + [path for folder in folders for kind in kinds for path in (ROOT / folder).rglob(kind)]


def test_every_test_file_belongs_to_a_suite() -> None:
    folders = [ROOT / path for path in (*suites.ON_HOST, *suites.IN_IMAGE, *suites.WITH_ENGINE)]
    places = ("tests", "twin", "embeddings", "kernels", "recipes", "gr_model", "smoke_tests")
    files = [file for place in places for file in (ROOT / place).rglob("test_*.py")]
    assert len(files) > 50
    assert [str(f.relative_to(ROOT)) for f in files if not any(folder in f.parents for folder in folders)] == []
