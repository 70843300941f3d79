"""Other users, read-only and strange places: where a package is installed, and where it is refused."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grstack import commands
from grstack.choices import Choices
from grstack.errors import PackageError
from tests.integration.opp_packages import CUMSUM, DENSE, OPAPI, Real, camel, look, run, tree_state

pytestmark = pytest.mark.image


def as_another_user(command: str) -> subprocess.CompletedProcess[str]:
    return run(["su", "nobody", "-s", "/bin/bash", "-c", command] if os.geteuid() == 0 else ["bash", "-c", command])


@pytest.fixture
def open_place() -> Iterator[Path]:
    """pytest closes its own directories to other users."""
    with tempfile.TemporaryDirectory(prefix="grstack test ") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_user_installs_in_his_own_place_only(real: Real, output: io.StringIO, open_place: Path) -> None:
    opp, home, package = open_place / "the opp", open_place / "his home", open_place / "package.run"
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    before = tree_state(opp)
    home.mkdir()
    shutil.copy(real.package(DENSE), package)
    for path in (opp, opp / "vendors"):
        path.chmod(0o555)
    if os.geteuid() == 0:
        shutil.chown(home, "nobody")
    refused = as_another_user(f"ASCEND_OPP_PATH='{opp}' '{package}'")
    assert refused.returncode == 1 and "cannot write into" in refused.stderr
    assert tree_state(opp) == before
    done = as_another_user(f"'{package}' '--install-path={home}/opp'")
    assert done.returncode == 0 and done.stdout.endswith("SUCCESS\n"), done.stderr
    assert [c.vendor.name for c in look(home / "opp").found] == [f"mxrec_{DENSE}"]
    assert as_another_user(f"'{home}/opp/vendors/mxrec_{DENSE}/scripts/uninstall.sh'").returncode == 0
    for path in (opp, opp / "vendors"):
        path.chmod(0o755)


def test_a_read_only_target_is_left_as_it_is(real: Real, output: io.StringIO, opp: Path) -> None:
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    before = tree_state(opp)
    s = real.session
    host = s.engine.locate(s.plan, s.plan.step("builder"))  # no toolkit, so the package reads its library by binutils
    for operator, options in ((DENSE, []), (CUMSUM, []), (CUMSUM, ["--uninstall"])):
        package = real.package(operator)
        argv = ["docker", "run", "--rm", "--network=none", f"--volume={opp}:/opp:ro", f"--volume={package}:/a.run:ro"]
        done = run([*argv, "--env=ASCEND_OPP_PATH=/opp", host, "bash", "/a.run", *options])
        assert done.returncode == 1 and "cannot write into /opp/vendors" in done.stderr, (operator, done.stderr)
    assert tree_state(opp) == before


def test_a_target_that_is_a_file_is_refused_before_anything_is_built(output: io.StringIO, tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    with pytest.raises(PackageError, match="cannot be written"):
        commands.install_ops(Choices(), into=str(tmp_path / "a file"))


def test_a_custom_path_does_not_move_the_target_and_is_named_where_it_wins(
    real: Real, output: io.StringIO, opp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    custom = tmp_path / "my own"
    assert run(["bash", real.package(CUMSUM), f"--install-path={custom}"]).returncode == 0
    entry = custom / f"vendors/mxrec_{CUMSUM}"
    sourced = run(["bash", "-c", f"source '{entry}/bin/set_env.bash'; echo $ASCEND_CUSTOM_OPP_PATH"])
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"{sourced.stdout.strip()}:")
    before = tree_state(custom)
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    assert tree_state(custom) == before
    assert [c.vendor.name for c in look(opp).found] == [f"mxrec_{CUMSUM}"]
    assert f"warning: {camel(CUMSUM)} is still taken from {entry}" in output.getvalue()
    assert commands.opp(Choices(), "which", CUMSUM, into=str(opp)) == 0
    assert "because ASCEND_CUSTOM_OPP_PATH, entry 1 is the first place searched" in output.getvalue()
    # the package itself goes beside what the variable names
    done = run(["bash", real.package(DENSE)], ASCEND_CUSTOM_OPP_PATH=f"{entry}:", ASCEND_OPP_PATH=opp)
    assert done.returncode == 0 and (custom / f"vendors/mxrec_{DENSE}" / OPAPI).is_file()
