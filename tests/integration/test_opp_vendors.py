"""Two vendors with one operator: who serves it, by the manager and by the runtime."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from grstack import commands
from grstack.choices import Choices
from grstack.engines import Mount
from grstack.errors import PackageError
from grstack.execute import execute
from grstack.opp.search import which
from tests.integration.opp_packages import CUMSUM, OPAPI, Real, camel, errors, look, run, tree_state

pytestmark = pytest.mark.image


def test_two_vendors_with_one_operator(real: Real, output: io.StringIO, opp: Path, repack: Callable[..., Path]) -> None:
    other = repack(CUMSUM, vendor="another_team")
    assert run(["bash", other], ASCEND_OPP_PATH=opp, ASCEND_HOME_PATH=real.twin).returncode == 0
    before = tree_state(opp)
    with pytest.raises(PackageError, match=f"operator {CUMSUM} is served by another vendor already: another_team"):
        commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    assert tree_state(opp) == before
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,), force=True)
    answer = which(look(opp).found, camel(CUMSUM))
    assert answer is not None and answer.by is not None
    assert answer.by.vendor.name == f"mxrec_{CUMSUM}" and [c.vendor.name for c in answer.shadowed] == ["another_team"]
    assert errors(look(opp, real.twin)) == [
        f"mxrec_{CUMSUM}: {camel(CUMSUM)} is also in another_team (load_priority, place 2), which the runtime never"
        " asks for it"
    ]
    assert commands.opp(Choices(), "verify", into=str(opp)) == 1
    assert commands.opp(Choices(), "remove", "another_team", into=str(opp)) == 0
    assert commands.opp(Choices(), "verify", into=str(opp)) == 0


def refusing_library(folder: Path) -> bytes:
    """A library with the same operator, whose first phase always fails."""
    name = f"aclnn{camel(CUMSUM)}"
    text = f"int {name}GetWorkspaceSize(void) {{ return 561103; }} int {name}(void) {{ return 561103; }}\n"
    (folder / "refuse.c").write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "refuse.so", "refuse.c"], cwd=folder, check=True)
    return (folder / "refuse.so").read_bytes()


PROGRAM = """
import torch, torch_npu, gr_ops
try:
    print("RESULT", torch.ops.mxrec.asynchronous_complete_cumsum(torch.tensor([2, 3, 4]).npu()).tolist())
    print("FROM", {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if "libcust_opapi" in line})
except RuntimeError as error:
    print("REFUSED", "561103" in str(error))
"""


def in_image(real: Real, argv: list[str], place: Mount, **variables: str) -> list[str]:
    """What a program printed in the image, where `place` is mounted."""
    s = real.session
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    shown = io.StringIO()
    s.runner.console, console = Console(file=shown, width=400), s.runner.console
    try:
        code = s.engine.run(s.plan, argv, mounts=[place], env=variables)
    finally:
        s.runner.console = console
    assert code == 0, shown.getvalue()
    return [line for line in shown.getvalue().splitlines() if line.startswith(("RESULT", "REFUSED", "FROM"))]


def result_with_opp(real: Real, opp: Path) -> str:
    """Of the program, with this opp directory."""
    place = Mount(source=opp, name="the opp")
    path = real.session.engine.path_of(place)
    return in_image(real, ["python", "-c", PROGRAM], place, ASCEND_OPP_PATH=path)[0]


def test_the_runtime_asks_the_vendor_that_the_manager_names(
    real: Real, output: io.StringIO, opp: Path, repack: Callable[..., Path], tmp_path: Path
) -> None:
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    broken = repack(CUMSUM, vendor="another_team", library=refusing_library(tmp_path))
    assert run(["bash", broken, "--force"], ASCEND_OPP_PATH=opp).returncode == 0
    answer = which(look(opp).found, CUMSUM)
    assert answer is not None and answer.by is not None and answer.by.vendor.name == "another_team"
    assert result_with_opp(real, opp) == "REFUSED True"
    commands.opp(Choices(), "remove", "another_team", into=str(opp))
    assert result_with_opp(real, opp) == "RESULT [0, 2, 5, 9]"


def test_an_operator_runs_where_every_path_has_spaces(real: Real, output: io.StringIO, tmp_path: Path) -> None:
    package = tmp_path / "packages to install/the package.run"
    package.parent.mkdir()
    shutil.copy(real.package(CUMSUM), package)
    custom = tmp_path / "my own operators"
    done = run(["bash", package], ASCEND_CUSTOM_OPP_PATH=custom, ASCEND_HOME_PATH=real.twin)
    assert done.returncode == 0 and done.stdout.endswith("SUCCESS\n"), done.stderr
    entry = custom / f"vendors/mxrec_{CUMSUM}"
    # The same place in the image, where nothing else serves the operator; the common script sets the variable.
    place = Mount(source=custom, name=str(custom).lstrip("/"))
    (custom / "an empty opp").mkdir()
    script = 'source "$0/vendors/set_env.bash" && echo "FROM $ASCEND_CUSTOM_OPP_PATH" && exec python -c "$1"'
    lines = in_image(
        real, ["bash", "-c", script, str(custom), PROGRAM], place, ASCEND_OPP_PATH=f"{custom}/an empty opp"
    )
    assert lines == [f"FROM {entry}", "RESULT [0, 2, 5, 9]", f"FROM {{'{entry / OPAPI}'}}"]
