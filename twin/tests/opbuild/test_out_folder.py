"""What stands where a built operator is laid out: its own is replaced, that of somebody else is not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "opbuild"))

import vendor_tree  # noqa: E402
from operator_build import BuildError  # noqa: E402


class Reached(Exception):
    """The old tree is gone, and the new one begins."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def install(*_: object) -> None:
        raise Reached

    monkeypatch.setattr(vendor_tree, "install", install)
    place = tmp_path / "packages/vendors/mine"
    (place / "op_api").mkdir(parents=True)
    (place / "op_api/mine.so").write_text("mine")
    return place


def lay_out(root: Path) -> None:
    build = SimpleNamespace(out=root.parents[2], vendor="mine", version="1")
    vendor_tree.lay_out(build, [], Path("libcust_opapi.so"), [])


@pytest.mark.parametrize("info", [None, "custom_opp_compiler_version=8.3.RC1\n"])
def test_a_tree_of_somebody_else_stays(root: Path, info: str | None) -> None:
    if info:
        (root / "version.info").write_text(info)
    with pytest.raises(BuildError, match=f"{root} is there and was not built by this tool; mv {root} ELSEWHERE"):
        lay_out(root)
    assert (root / "op_api/mine.so").read_text() == "mine"


def test_its_own_tree_is_replaced(root: Path) -> None:
    (root / "version.info").write_text("custom_opp_compiler_version=twin-0\n")
    with pytest.raises(Reached):
        lay_out(root)
    assert not (root / "op_api").exists()
