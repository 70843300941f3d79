"""Packages are installed, upgraded and removed on the host, with the real packages."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from grstack import commands
from grstack.choices import Choices
from grstack.engines.artefacts import Artefacts
from grstack.errors import UsageError
from grstack.opp.search import which
from tests.integration.opp_packages import CUMSUM, DENSE, Real, camel, errors, look, run, tree_state

pytestmark = pytest.mark.image


def test_all_operators_are_installed_served_and_loaded(real: Real, output: io.StringIO, opp: Path) -> None:
    commands.install_ops(Choices(), into=str(opp))
    state = look(opp, real.twin)
    assert state.problems == ()
    assert {c.vendor.name for c in state.found} == {f"mxrec_{name}" for name in real.operators}
    for candidate in state.found:
        operator = candidate.vendor.name.removeprefix("mxrec_")
        assert set(candidate.vendor.socs) == set(real.session.versions.operators[operator].socs)
        assert candidate.vendor.emulated and candidate.vendor.operators
    assert commands.opp(Choices(), "verify", into=str(opp)) == 0
    assert commands.opp(Choices(), "which", camel(CUMSUM), into=str(opp)) == 0
    assert f"served by mxrec_{CUMSUM}" in output.getvalue()


def test_what_install_ops_says_to_type_adds_all_operators_to_the_toolkit_s_own(
    real: Real, output: io.StringIO, opp: Path, tmp_path: Path
) -> None:
    """With ASCEND_OPP_PATH in its place the toolkit's own vendor would not be asked any more."""
    toolkit = tmp_path / "toolkit opp"
    assert run(["bash", real.package(CUMSUM)], ASCEND_OPP_PATH=toolkit).returncode == 0
    commands.install_ops(Choices(), into=str(opp), soc="ascend910b")
    typed = output.getvalue().rstrip().rpartition("next: ")[2]
    assert typed == f"source '{opp}/vendors/set_env.bash'"
    done = run(
        ["bash", "-euc", f'{typed}; echo "$ASCEND_OPP_PATH"; echo "$ASCEND_CUSTOM_OPP_PATH"'], ASCEND_OPP_PATH=toolkit
    )
    kept, custom = done.stdout.splitlines()
    assert kept == str(toolkit), done.stderr
    state = look(toolkit, real.twin, ASCEND_CUSTOM_OPP_PATH=custom)
    asked = [c.vendor for c in state.found if not c.not_asked]
    assert {v.name for v in asked if v.path.startswith(str(opp))} == {f"mxrec_{name}" for name in real.operators}
    assert f"{toolkit}/vendors/mxrec_{CUMSUM}" in {v.path for v in asked}
    for name in real.operators:
        commands.opp(Choices(), "remove", f"mxrec_{name}", into=str(opp))
    assert list((opp / "vendors").iterdir()) == []


def test_reinstall_gives_the_same_tree(output: io.StringIO, opp: Path) -> None:
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    first = tree_state(opp)
    assert set(first) and all(name.startswith("vendors/") for name in first)
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    assert tree_state(opp) == first


def test_upgrade_and_downgrade(real: Real, output: io.StringIO, opp: Path, repack: Callable[..., Path]) -> None:
    newer = repack(CUMSUM, version="9.10.0")
    refused = run(["bash", newer, "--upgrade"], ASCEND_OPP_PATH=opp, ASCEND_HOME_PATH=real.twin)
    assert refused.returncode == 1 and "install the package first" in refused.stderr
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    before = tree_state(opp)
    upgraded = run(["bash", newer, "--upgrade"], ASCEND_OPP_PATH=opp, ASCEND_HOME_PATH=real.twin)
    assert upgraded.returncode == 0 and "to 9.10.0" in upgraded.stdout and "upgrading" in upgraded.stdout
    assert [c.vendor.version for c in look(opp).found] == ["9.10.0"]
    assert errors(look(opp, real.twin)) == []
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    assert tree_state(opp) == before


def test_uninstall_by_the_manager_and_by_the_package(real: Real, output: io.StringIO, opp: Path) -> None:
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM, DENSE))
    assert commands.opp(Choices(), "remove", f"mxrec_{DENSE}", into=str(opp)) == 0
    assert [c.vendor.name for c in look(opp).found] == [f"mxrec_{CUMSUM}"]
    assert errors(look(opp, real.twin)) == []
    assert which(look(opp).found, camel(DENSE)) is None
    with pytest.raises(UsageError, match="unknown vendor"):
        commands.opp(Choices(), "remove", f"mxrec_{DENSE}", into=str(opp))
    assert run(["bash", real.package(CUMSUM), "--uninstall"], ASCEND_OPP_PATH=opp).returncode == 0
    assert list((opp / "vendors").iterdir()) == []


def test_one_soc_is_the_bundle_of_that_soc(real: Real, output: io.StringIO, opp: Path) -> None:
    commands.install_ops(Choices(), into=str(opp), soc="ascend910_93")
    state = look(opp, real.twin)
    assert state.problems == () and {c.vendor.socs for c in state.found} == {("ascend910_93",)}
    assert {c.vendor.package for c in state.found} == {f"mxrec_opp_{name}" for name in real.operators}
    for soc, reason in (
        ("ascend910x", "unknown SoC 'ascend910x'; valid: ascend910_93, ascend910b"),
        ("ascend310p", "nothing is built for ascend310p: .*DataCopyPad"),
    ):
        with pytest.raises(UsageError, match=reason):
            commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,), soc=soc)


def test_the_packages_of_both_socs_have_names_of_their_own(real: Real) -> None:
    step = real.session.plan.step("packages")
    found = {path.name for path in Artefacts(real.session.paths).directory(step).glob("*.run")}
    end = f"twin_{real.session.plan.arch}.run"
    expected = {f"mxrec_opp_all_{soc}_{end}" for o in real.session.versions.operators.values() for soc in o.socs}
    for name, operator in real.session.versions.operators.items():
        expected |= {f"mxrec_opp_{name}_{soc}_{end}" for soc in operator.socs}
    assert found == expected
