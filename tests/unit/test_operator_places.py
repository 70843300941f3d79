"""Every place where an Ascend C operator must be named, walked for every operator there is.

What can be derived is: CMake finds the plugin's sources, the recipes the operator's. What is left stands here, and
`inv new operator` writes it (docs/develop/operator.md).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grstack import spec
from grstack.new import Name, inside
from smoke_tests.operator_names import TORCH_OPERATORS, torch_operator

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = ROOT / "kernels/operators"
PLUGIN = ROOT / "kernels/gr_ops/csrc"
FOLDERS = sorted(path.parent.name for path in OPERATORS.glob("*/op_host"))


def camel(operator: str) -> str:
    return "".join(part.capitalize() for part in operator.split("_"))


def family(operator: str) -> Path:
    """The folder of the plugin whose NPU kernel calls the operator."""
    call = f'"aclnn{camel(operator)}"'
    found = {path.parent for path in PLUGIN.glob("*/npu*.cpp") if call in path.read_text(encoding="utf-8")}
    assert len(found) == 1, f"{call} is called in {sorted(found) or 'no kernels/gr_ops/csrc/*/npu*.cpp'}"
    return found.pop()


def text(folder: Path, pattern: str) -> str:
    files = sorted(folder.rglob(pattern))
    assert files, f"{folder.relative_to(ROOT)} has no {pattern}"
    return "".join(file.read_text(encoding="utf-8") for file in files)


def test_versions_names_the_folders_and_no_others() -> None:
    assert sorted(spec.load(ROOT / "versions.yaml").operators) == FOLDERS


def test_smoke_test_knows_no_operator_that_is_gone() -> None:
    assert TORCH_OPERATORS.keys() <= set(FOLDERS)


@pytest.mark.parametrize("operator", FOLDERS)
def test_sources(operator: str) -> None:
    folder = OPERATORS / operator
    definition = text(folder / "op_host", "*.cpp")
    assert f"OP_ADD({camel(operator)})" in definition
    for part in ("SetTiling", "SetInferShape", "AddConfig"):
        assert part in definition, f"op_host of {operator} has no {part}"
    assert re.search(rf"__aicore__ (inline )?void\s+{operator}\(", text(folder / "op_kernel", f"{operator}.cpp"))
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^## (Bound|Operations and bytes)$", page, re.MULTILINE)
    assert "](../../../benchmarks/results/operators-counts.md)" in page, "how far the schedule is from the bound"


@pytest.mark.parametrize("operator", FOLDERS)
def test_operator_has_tests(operator: str) -> None:
    """Its own, or those of operators that are one family."""
    files = [*(OPERATORS / operator / "tests").glob("test_*.py"), *(OPERATORS / "common/tests").glob("test_*.py")]
    assert any(f'"{operator}"' in file.read_text(encoding="utf-8") for file in files) or any(
        operator in file.name for file in files
    )


@pytest.mark.parametrize("operator", FOLDERS)
def test_plugin(operator: str) -> None:
    """The schema, and a kernel of each back end beside the one that calls the operator."""
    folder = family(operator)
    torch_name = torch_operator(operator).partition("::")[2]
    beginning = torch_name.partition("adagrad")[0]  # the names of the optimizers' operators are put together
    assert beginning in text(folder, "*schemas.cpp"), f"no schema of {torch_name} in {folder.relative_to(ROOT)}"
    for key, files in {"CPU": "*.cpp", "Meta": "*.cpp", "PrivateUse1": "npu*.cpp"}.items():
        registered = re.search(rf"TORCH_LIBRARY_IMPL\((mxrec|fbgemm), {key}, m\)", text(folder, files))
        assert registered, f"{folder.relative_to(ROOT)} registers no kernel for {key}"


@pytest.mark.parametrize("operator", FOLDERS)
def test_plugin_has_tests(operator: str) -> None:
    """By the sample that test_every_operator.py takes through schema, fake tensors, autograd, compile and export."""
    samples = text(ROOT / "kernels/gr_ops/tests", "*samples.py") + " ".join(
        path.stem for path in (ROOT / "kernels/gr_ops/tests/operator_samples").glob("*.py")
    )
    torch_name = torch_operator(operator).partition("::")[2]
    generic = torch_name.replace("_adagrad_", "_{n}_")  # the samples of the optimizers are one line
    assert torch_name in samples or generic in samples


def test_the_page_lists_what_the_command_writes() -> None:
    page = (ROOT / "docs/develop/operator.md").read_text(encoding="utf-8")
    table = page.partition("## The files, in order")[2].partition("\n\nNothing else")[0]
    listed = set(re.findall(r"`([\w./]+\.\w+)`", table.replace("`test_every_operator.py`", "")))
    name = Name.parse("one_name")
    written = {path.relative_to(ROOT).as_posix() for path in inside(ROOT, name).files} | {"versions.yaml"}
    assert {place.replace("NAME", name.snake) for place in listed if "npu*" not in place} == written
