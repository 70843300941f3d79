"""The key of an operator package's interface: what changes it, what does not, and who knows it."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = ROOT / "kernels/operators"
PLUGIN = ROOT / "kernels/gr_ops/csrc"
WRITE = "python3 kernels/packaging/interface.py --table kernels/operators > kernels/gr_ops/csrc/aclnn/interfaces.h"
PERMUTE = "permute2d_sparse_data"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("interface", ROOT / "kernels/packaging/interface.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


interface = load()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the folder of operators with one of them."""
    for name in (PERMUTE, "common"):
        shutil.copytree(OPERATORS / name, tmp_path / name, ignore=shutil.ignore_patterns("tests"))
    return tmp_path


def edited_key(tree: Path, file: str, old: str, new: str) -> str:
    text = (tree / file).read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file} holds {text.count(old)} times: {old}"
    (tree / file).write_text(text.replace(old, new), encoding="utf-8")
    return str(interface.key(tree / PERMUTE))


HOST = f"{PERMUTE}/op_host/permute2d_sparse_data.cpp"
WEIGHTS = '    this->Input("weights").ParamType(OPTIONAL).DataType(weights).Format(formats).AutoContiguous();\n'
VALUES = '    this->Input("values").ParamType(REQUIRED).DataType(values).Format(formats).AutoContiguous();\n'
CHANGES = {
    "an input less": (HOST, WEIGHTS, ""),
    "inputs in another order": (HOST, VALUES + WEIGHTS, WEIGHTS + VALUES),
    "an output less": (HOST, "    fault::DeclareOutput(*this, formats);\n", ""),
    "an attribute more": (HOST, 'this->Attr("out_len")', 'this->Attr("more").Int(); this->Attr("out_len")'),
    "an attribute of another type": (HOST, "AttrType(REQUIRED).Int()", "AttrType(REQUIRED).Float()"),
    "the gradient's inputs": (
        f"{PERMUTE}/op_host/permute2d_sparse_data_grad.cpp",
        'this->Input("grad")',
        'this->Input("gradient")',
    ),
    "a field of the tiling more": (
        f"{PERMUTE}/op_kernel/permute2d_sparse_data_tiling.h",
        "  int64_t copies;",
        "  int64_t more;\n  int64_t copies;",
    ),
    "a wider field of the tiling": (
        f"{PERMUTE}/op_kernel/permute2d_sparse_data_tiling.h",
        "uint32_t tileBytes;",
        "uint64_t tileBytes;",
    ),
    "how a shared header declares": ("common/data_faults_host.h", 'op.Input("faults")', 'op.Input("fault")'),
    "the numbers of records": ("common/data_faults.h", "  PERMUTE_ENTRIES,\n", "  EARLIER,\n  PERMUTE_ENTRIES,\n"),
}
SAME = {
    "a comment": (HOST, "namespace ops {\n", 'namespace ops {\n// An input that "is" none: Input(\n'),
    "a comment in the definition": (HOST, WEIGHTS, '    // optional; /* " */\n' + WEIGHTS),
    "layout": (HOST, 'this->Attr("out_len").AttrType', 'this->Attr("out_len")\n        .AttrType'),
    "the tiling's arithmetic": (HOST, "TILE_BYTES = 64 * 1024", "TILE_BYTES = 32 * 1024"),
    "the kernel": (f"{PERMUTE}/op_kernel/permute2d_sparse_data.cpp", "LENGTHS_TILE = 1024", "LENGTHS_TILE = 512"),
    "another operator's header": ("common/hstu_tiling.h", "#pragma once", "#pragma once\nstruct More {};"),
    "how a record is written": ("common/data_faults.h", "    silent_ = true;\n", "    silent_ = 1 > 0;\n"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_caller_must_know_changes_the_key(tree: Path, name: str) -> None:
    before = interface.key(tree / PERMUTE)
    assert before == interface.key(OPERATORS / PERMUTE)
    assert edited_key(tree, *CHANGES[name]) != before


@pytest.mark.parametrize("name", SAME)
def test_nothing_else_does(tree: Path, name: str) -> None:
    before = interface.key(tree / PERMUTE)
    assert edited_key(tree, *SAME[name]) == before


def test_a_folder_without_a_definition_is_named(tmp_path: Path) -> None:
    (tmp_path / "op_host").mkdir()
    with pytest.raises(SystemExit, match=r"op_host/\*\.cpp defines no operator; expected a class of OpDef"):
        interface.key(tmp_path)


def test_the_plugin_has_the_keys_of_these_sources() -> None:
    written = (PLUGIN / "aclnn/interfaces.h").read_text(encoding="utf-8")
    assert written == interface.table(OPERATORS), f"type: {WRITE}"


def test_the_plugin_has_the_keys_of_all_that_it_calls() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PLUGIN.glob("*/npu*.cpp")]
    called = {name for text in texts for name in re.findall(r'"(aclnn[A-Z]\w+)"', text)}
    known = set(re.findall(r'{"(aclnn\w+)"', (PLUGIN / "aclnn/interfaces.h").read_text(encoding="utf-8")))
    assert called and called == known
