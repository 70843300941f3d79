"""A small repository with fixed content: plans made of it have fixed keys."""

from __future__ import annotations

from pathlib import Path

import yaml

from grstack.locks import Lock, Package

FILES = {
    "docker/base/packages.txt": "python3\n",
    "docker/base/bootstrap.sh": "true\n",
    "docker/base/apt.sh": "true\n",
    "docker/base/dnf.sh": "true\n",
    "docker/base/packages-rpm.txt": "python3\n",
    "docker/base/Dockerfile": "ARG BASE\nFROM ${BASE}\n",
    "docker/environment/Dockerfile": "ARG BASE\nFROM ${BASE}\n",
    "docker/environment/builder.Dockerfile": "ARG ENVIRONMENT\nFROM ${ENVIRONMENT}\n",
    "docker/environment/install.sh": "true\n",
    "docker/environment/runtime.sh": "true\n",
    "docker/devel/Dockerfile": "ARG IMAGE\nFROM ${IMAGE}\n",
    "docker/npu/Dockerfile": "ARG ENVIRONMENT\nFROM ${ENVIRONMENT}\n",
    "recipes/twin/build.sh": "true\n",
    "recipes/twin/install.sh": "true\n",
    "recipes/operators/build.sh": "true\n",
    "recipes/operators/install.sh": "true\n",
    "recipes/packages/build.sh": "true\n",
    "recipes/torchrec/build.sh": "true\n",
    "recipes/torchrec/install.sh": "true\n",
    "twin/runtime/acl.cpp": "int main() {}\n",
    "kernels/operators/one/op_kernel/one.cpp": "// one\n",
    "kernels/operators/two/op_kernel/two.cpp": "// two\n",
    "gr_model/__init__.py": "",
    "smoke_tests/__init__.py": "",
}
OPERATORS = {"one": ("ascend910b", "ascend910_93"), "two": ("ascend910b",)}
RECIPES = {
    "twin": {"platforms": ["twin"], "inputs": ["twin/runtime"], "outputs": ["lib64/a.so"]},
    "torchrec": {"platforms": ["twin", "cann"], "inputs": [], "outputs": ["*.whl"], "wheels": ["torchrec"]},
    "operators": {
        "platforms": ["twin", "cann"],
        "foreach": "operators",
        "needs": ["twin"],
        "inputs": ["kernels/operators/${operator}"],
        "outputs": ["mxrec_opp_${operator}.run"],
    },
    "packages": {
        "platforms": ["twin", "cann"],
        "needs": ["operators"],
        "inputs": [],
        "outputs": ["*.run"],
        "image": False,
    },
}


COMPONENTS = ("twin", "torchrec", "operators", "packages")


def make_project(root: Path) -> Path:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, recipe in RECIPES.items():
        text = yaml.safe_dump({"name": name, "summary": f"the {name}", **recipe})
        (root / f"recipes/{name}/recipe.yaml").write_text(text)
    return root


def make_lock(arch: str = "x86_64") -> Lock:
    def package(name: str, version: str, digit: str, **more: object) -> Package:
        filename = f"{name}-{version}-py3-none-any.whl"
        return Package(name=name, version=version, filename=filename, sha256=digit * 64, **more)  # type: ignore[arg-type]

    packages = (
        package("numpy", "1.26.4", "1"),
        package("torch", "2.6.0", "2"),
        package("torch", "2.6.0+cpu", "3", variant="cpu"),
        package("triton", "3.2.0", "4", plain_only=True),
        package("torchrec", "1.1.0", "5", installed=False),
    )
    return Lock(target="npu", python="3.11", arch=arch, inputs="0" * 64, packages=packages)
