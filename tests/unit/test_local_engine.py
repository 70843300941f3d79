"""No engine: what a build, an installation and a run are given on this machine, with its own CANN or the twin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from grstack import ascend
from grstack.engines import Inputs
from grstack.engines.local import LocalEngine
from grstack.errors import StepError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.plan import make_plan
from grstack.run import Runner
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["named", "default", "later default"])
def toolkit(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's CANN: by the variable, or where toolkits are by default, up to 8.3 and from 8.5 on."""
    home, absent = tmp_path / "toolkit", str(tmp_path / "absent")
    home.mkdir()
    monkeypatch.setattr("grstack.ascend.HOME", str(home) if request.param == "default" else absent)
    monkeypatch.setattr("grstack.ascend.LATER_HOME", str(home) if request.param == "later default" else absent)
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH", raising=False)
    if request.param == "named":
        monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    return home


class OnCann:
    """The local engine with a plan for platform cann, and what it has run: its words and its variables."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str = "cann") -> None:
        root = make_project(tmp_path / "project")
        self.plan = make_plan(
            root,
            lock=make_lock(),
            platform=platform,
            base="host:x",
            build="plain",
            components=COMPONENTS,
            operators=OPERATORS,  # type: ignore[arg-type]
        )
        self.engine = LocalEngine(Paths(root=root, cache=tmp_path), Runner(Console(quiet=True)), Settings())
        self.prefix = root / self.engine.locate(self.plan, self.plan.image)
        self.ran: list[tuple[list[str], dict[str, str]]] = []
        monkeypatch.setattr(
            self.engine.runner, "stream", lambda argv, *, env, **more: self.ran.append((list(argv), dict(env)))
        )


def test_on_the_host_components_are_built_with_the_toolkit_that_is_found(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = OnCann(tmp_path, monkeypatch)
    with pytest.raises(StepError):  # nothing is built
        on.engine.build(on.plan, on.plan.step("operators/one"), Inputs())
    ((_, given),) = on.ran
    assert (given["ASCEND_HOME_PATH"], given["ASCEND_OPP_PATH"]) == (str(toolkit), f"{toolkit}/opp")


def test_on_the_host_programs_have_the_toolkit_and_our_operators_beside_it(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not ours to install into: the documented variable for vendors elsewhere names them."""
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", "/others")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/inherited")
    on = OnCann(tmp_path, monkeypatch)
    assert on.engine.run(on.plan, ["python", "-c", "0"], env={"PYTHONPATH": "/source"}) == 0
    ((argv, given),) = on.ran
    assert argv == ["bash", f"{on.engine.paths.root}/docker/npu/entrypoint.sh", "python", "-c", "0"]
    assert (given["ASCEND_HOME_PATH"], given["ASCEND_TOOLKIT_HOME"]) == (str(toolkit), str(toolkit))
    assert given["ASCEND_OPP_PATH"] == f"{toolkit}/opp"
    vendors = [f"{on.prefix}{ascend.HOME}/opp/vendors/mxrec_{name}" for name in OPERATORS]
    assert given["ASCEND_CUSTOM_OPP_PATH"].split(":") == [*vendors, "/others"]
    (image,) = re.findall(
        r"LD_LIBRARY_PATH=\$\{ASCEND_HOME\}/lib64:(\S+)", (ROOT / "docker/npu/Dockerfile").read_text(encoding="utf-8")
    )
    assert given["LD_LIBRARY_PATH"] == f"{toolkit}/lib64:{image}:/inherited"


def test_on_the_host_the_toolkit_s_own_environment_is_read(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For real: its script sees no argument, and what it puts first stays first."""
    (toolkit / "set_env.sh").write_text(
        f"export PYTHONPATH={toolkit}/python/site-packages:$PYTHONPATH SAW=$# ASCEND_OPP_PATH={toolkit}/opp\n"
    )
    on = OnCann(tmp_path, monkeypatch)
    (on.engine.paths.root / "docker/npu").mkdir(parents=True, exist_ok=True)
    (on.engine.paths.root / "docker/npu/entrypoint.sh").write_text((ROOT / "docker/npu/entrypoint.sh").read_text())
    monkeypatch.undo()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(toolkit))
    on.engine.runner = Runner(Console(quiet=True))
    code = on.engine.run(on.plan, ["sh", "-c", 'echo "$SAW $PYTHONPATH $1"; exit 3', "sh", "one two"])
    path = ":".join((f"{toolkit}/python/site-packages", f"{on.prefix}/site-packages", f"{on.prefix}/src"))
    assert code == 3 and f"0 {path} one two\n" in (tmp_path / "project/build/logs/run.log").read_text()


@pytest.mark.parametrize("platform", ["cann", "twin"])
def test_a_python_path_that_a_run_is_given_hides_no_component(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """In an image they are in the environment; here in a folder that the variable names."""
    on = OnCann(tmp_path, monkeypatch, platform)
    assert on.engine.run(on.plan, ["true"], env={"PYTHONPATH": "/source"}) == 0
    ((argv, given),) = on.ran
    assert given["PYTHONPATH"].split(":") == ["/source", f"{on.prefix}/site-packages", f"{on.prefix}/src"]
    if platform == "twin":  # whose home is the plan's own
        assert argv == ["true"] and "ASCEND_CUSTOM_OPP_PATH" not in given
        assert given["ASCEND_HOME_PATH"] == f"{on.prefix}{ascend.HOME}"


def test_on_the_host_packages_are_opened_with_the_toolkit_and_installed_in_our_prefix(
    tmp_path: Path, toolkit: Path
) -> None:
    artefact, home = tmp_path / "artefact", tmp_path / "prefix/home"
    artefact.mkdir()
    (artefact / "mxrec_opp_one.run").write_text(
        'echo "$ASCEND_HOME_PATH $ASCEND_OPP_PATH ${ASCEND_CUSTOM_OPP_PATH-unset}" > "$SAID"\n'
    )
    said = tmp_path / "said"
    variables = {"GRSTACK_ARTEFACT": str(artefact), "ASCEND_HOME": str(home), "GRSTACK_PYTHON": sys.executable}
    variables |= {"SAID": str(said), "ASCEND_CUSTOM_OPP_PATH": "/others", "PATH": os.environ["PATH"]}
    for given, opened in (({"GRSTACK_TOOLKIT": str(toolkit)}, toolkit), ({"GRSTACK_TOOLKIT": ""}, home), ({}, home)):
        script = ROOT / "recipes/operators/install.sh"
        subprocess.run(["bash", str(script)], env={**variables, **given}, check=True, capture_output=True)
        assert said.read_text() == f"{opened} {home}/opp unset\n"
