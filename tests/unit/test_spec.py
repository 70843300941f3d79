"""versions.yaml: each fault is found, at its line, together with all the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grstack import spec
from grstack.errors import SpecError
from grstack.spec._schema import SCHEMA_FILE

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "versions.yaml").read_text(encoding="utf-8")


def line_of(text: str, fragment: str) -> int:
    lines = [number for number, line in enumerate(text.splitlines(), 1) if fragment in line]
    assert lines, f"{fragment!r} is not in the text"
    return lines[0]


def changed(old: str, new: str, text: str = TEXT) -> str:
    assert old in text, f"{old!r} is not in versions.yaml"
    return text.replace(old, new, 1)


def faults(text: str) -> dict[int, str]:
    with pytest.raises(SpecError) as caught:
        spec.loads(text)
    found: dict[int, str] = {}
    for number, message in re.findall(r"^  line (\d+): (.*)$", caught.value.what, re.MULTILINE):
        found[int(number)] = found.get(int(number), "") + message + "\n"
    assert caught.value.where == "versions.yaml"
    return found


def test_the_committed_file_is_valid() -> None:
    versions = spec.load(ROOT / "versions.yaml")
    assert versions.targets["npu"].packages["torch_npu"] == "2.6.0.post3"
    assert versions.pythons.supported == ("3.10", "3.11")  # not the float 3.1
    assert ("cuda", "3.11", "aarch64", "") not in versions.combinations()
    assert len(versions.combinations()) == 3 * 2 * 2 - 2 + 2 * 2 * 2  # of npu also for CANN 8.2.RC1 and 8.5.0


def test_another_cann_brings_its_torch_npu_and_nothing_else() -> None:
    versions = spec.load(ROOT / "versions.yaml")
    standing, other = versions.targets["npu"], versions.for_cann("npu", "8.5.0")
    assert versions.canns("npu") == ("8.2.RC1", "8.5.0")
    assert versions.canns("cpu") == ()
    changed = {name for name, pin in other.packages.items() if standing.packages[name] != pin}
    assert (changed, other.packages["torch_npu"]) == ({"torch_npu"}, "2.6.0.post5")
    assert {platform.cann for platform in other.platforms.values()} == {"8.5.0"}


def test_models_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        spec.load(ROOT / "versions.yaml").schema_version = "2"  # type: ignore[assignment,misc]


CASES = {
    "another wheel": ("version: 1.2.1", "version: 1.2.2", "wheel: recbole", "not a wheel of recbole 1.2.2"),
    "unknown key": ("  glibc:", "  glib: x\n  glibc:", "  glib: x", "unknown key"),
    "malformed version": ("torchmetrics: 1.0.3", "torchmetrics: 1.0.3.x", "torchmetrics: 1.0.3.x", "specifier"),
    "malformed digest": ("digest: sha256:8130", "digest: sha256:zz30", "digest: sha256:zz", "pattern"),
    "malformed hash": ("ml-100k.user: 4f", "ml-100k.user: 4g", "ml-100k.user: 4g", "pattern"),
    "malformed wheel name": ("recbole-1.2.1-py3-none-any.whl", "recbole.whl", "wheel: recbole.whl", "wheel"),
    "unknown target": ("  cpu:\n    summary", "  tpu:\n    summary", "  tpu:", "unknown name 'tpu'"),
    "unknown platform": ("      cann: {base", "      cannn: {base", "cannn:", "valid: cann, twin"),
    "key given twice": ("  glibc:", "  before: 2026-01-01\n  glibc:", "  before: 2026-01-01", "twice"),
    "python 3.12 with torch_npu": (
        'supported: ["3.10", "3.11"]',
        'supported: ["3.10", "3.11", "3.12"]',
        "supported: [",
        "no build for Python 3.12",
    ),
    "platform cann without base": (
        "cann: {base: cann-8.3.rc1-910b, cann: 8.3.RC1}",
        "cann: {cann: 8.3.RC1}",
        "cann: {cann:",
        "cann needs a base",
    ),
    "platform with unknown base": ("twin: {base: debian-12", "twin: {base: debian-11", "twin: {base", "unknown base"),
    "another Python's unknown base": (
        '"3.10": ubuntu-22.04}',
        '"3.10": ubuntu-20}',
        '"3.10": ubuntu-20',
        "unknown base",
    ),
    "another Python's base without it": (
        'other_pythons: {"3.10": ubuntu-22.04}\n',
        'other_pythons: {"3.10": debian-12}\n',
        'other_pythons: {"3.10": debian-12}\n',
        "base debian-12 has no Python 3.10",
    ),
    "CANN of another torch_npu": (
        "ubuntu-22.04}, cann: 8.3.RC1}",
        "ubuntu-22.04}, cann: 8.2.RC1}",
        "twin: {base",
        "goes with CANN 8.3.RC1",
    ),
    "torch of another torch_npu": ("torch: 2.6.0", "torch: 2.7.1", "torch_npu: 2.6.0.post3", "goes with torch 2.6.0"),
    "release without compatibility row": (
        "torch_npu: 2.6.0.post3",
        "torch_npu: 2.6.0.post4",
        "torch_npu: 2.6.0.post4",
        "no row",
    ),
    "two fbgemm in one folder": (
        "fbgemm_gpu_cpu: 1.1.0",
        "fbgemm_gpu_cpu: 1.1.0\n      fbgemm_gpu: 1.1.0",
        "      fbgemm_gpu: 1.1.0",
        "same folder",
    ),
    "torch_npu outside npu": (
        "      triton: 3.4.0",
        "      triton: 3.4.0\n      torch_npu: 2.6.0",
        "      torch_npu: 2.6.0\n",
        "belongs to target npu",
    ),
    "operator for unknown SoC": (
        "dense_to_jagged: {socs: [ascend910b,",
        "dense_to_jagged: {socs: [ascend920b,",
        "socs: [ascend920b",
        "unknown SoC 'ascend920b'; valid: ascend310p, ascend910_93, ascend910b",
    ),
    "base without digest or reason": (
        "    home: /usr/local/Ascend/cann-8.5.0\n    unpinned: *unpinned\n",
        "    home: /usr/local/Ascend/cann-8.5.0\n",
        "  cann-8.5.0-910b:",
        "digest or",
    ),
    "base with a CANN that has no torch_npu": (
        "    cann: 8.5.0\n",
        "    cann: 8.4.0\n",
        "    cann: 8.4.0",
        "for CANN 8.4.0",
    ),
    "base with another CANN than its platform": (
        "    cann: 8.3.RC1\n    unpinned: &",
        "    cann: 8.5.0\n    unpinned: &",
        "cann: {base: cann-8.3.rc1-910b",
        "its base has 8.5.0",
    ),
    "home without a toolkit": (
        "    cann: 8.5.0\n    home",
        "    home",
        "    home: /usr/local/Ascend/cann-8.5.0",
        "but no cann",
    ),
    "source_only of no package": ("source_only: [torchrec]", "source_only: [torchrek]", "source_only:", "not among"),
    "default python not supported": ('default: "3.11"', 'default: "3.12"', 'default: "3.12"', "not in supported"),
    "variant of another release": (
        "    version: 2.6.0\n    variant",
        "    version: 2.5.0\n    variant",
        "    version: 2.5.0",
        "variant of torch 2.5.0",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_fault_is_reported_at_its_line(case: str) -> None:
    old, new, fragment, message = CASES[case]
    text = changed(old, new)
    line = text[: text.index(fragment)].count("\n") + 1 if "\n" in fragment else line_of(text, fragment)
    found = faults(text)
    assert line in found, found
    assert message in found[line]


def test_all_faults_are_reported_at_once() -> None:
    """Malformed values, unknown keys and combinations, in one error: none hides another."""
    names = [
        "unknown key",
        "malformed digest",
        "python 3.12 with torch_npu",
        "platform cann without base",
        "operator for unknown SoC",
        "malformed hash",
    ]
    text = TEXT
    for name in names:
        text = changed(CASES[name][0], CASES[name][1], text)
    found = faults(text)
    for name in names:
        assert CASES[name][3] in found[line_of(text, CASES[name][2])], name


def test_missing_key_is_reported_at_its_parent() -> None:
    text = changed('    tag: "12"\n', "")
    assert "'tag' is missing" in faults(text)[line_of(text, "  debian-12:")]


def test_invalid_yaml_has_its_line() -> None:
    text = changed("  glibc:", "  glibc: [\n  x:")
    (line,) = faults(text)
    assert line > line_of(text, "glibc: [")


@pytest.mark.parametrize("text", ["", "[]", "12", "a: b"])
def test_not_a_versions_file(text: str) -> None:
    assert faults(text)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        spec.load(tmp_path / "versions.yaml")
    assert str(tmp_path) in caught.value.where


def test_schema_file_is_current() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == spec.schema_text(), "run: python -m grstack.spec --write"


def _paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(found for key, value in items for found in _paths(value, (*path, key)))]


DATA = yaml.load(TEXT, Loader=yaml.BaseLoader)
JUNK = st.one_of(st.none(), st.just([]), st.just({}), st.just([[]]), st.just({"x": {}}), st.text("a1.-<", max_size=5))


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(_paths(DATA)[1:]), junk=JUNK)
def test_no_damage_raises_anything_but_a_spec_error(path: tuple[Any, ...], junk: Any) -> None:
    data = yaml.load(TEXT, Loader=yaml.BaseLoader)
    parent = data
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = junk
    try:
        spec.loads(yaml.safe_dump(data))
    except SpecError as error:
        assert error.what
