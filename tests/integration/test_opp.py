"""Installation and the vendor manager with the real packages: built by the real engine, loaded with the real twin."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from grstack import commands
from grstack.engines import Mount
from grstack.engines.artefacts import Artefacts
from grstack.engines.find import answers
from grstack.errors import PackageError, UsageError
from grstack.execute import execute
from grstack.opp.scan import State, scan
from grstack.opp.search import Environment, which
from grstack.session import Choices, Session

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "kernels/packaging"
CUMSUM, DENSE = "asynchronous_complete_cumsum", "dense_to_jagged"
OPAPI = "op_api/lib/libcust_opapi.so"
pytestmark = pytest.mark.image


@dataclass(frozen=True)
class Real:
    """This repository's packages, and the toolkit that their libraries are loaded with."""

    session: Session

    @property
    def twin(self) -> Path:
        return Artefacts(self.session.paths).directory(self.session.plan.step("twin"))

    def package(self, operator: str) -> Path:
        step = self.session.plan.step(f"operators/{operator}")
        return Artefacts(self.session.paths).directory(step) / f"mxrec_opp_{operator}.run"

    @property
    def operators(self) -> list[str]:
        return list(self.session.versions.operators)


@pytest.fixture(scope="session")
def real() -> Real:
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    s = Session(ROOT, Choices(), Console(quiet=True))
    execute(s.plan, s.engine, s.paths, s.fetch, s.console, until="packages")
    return Real(s)


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch, real: Real) -> io.StringIO:
    """What the commands print. The shell has sourced the twin's set_env.sh and nothing else."""
    for name in list(os.environ):
        if name.startswith("ASCEND"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(real.twin))
    out = io.StringIO()
    monkeypatch.setattr(commands, "_console", lambda: Console(file=out, width=250, highlight=False))
    return out


@pytest.fixture
def opp(tmp_path: Path) -> Path:
    return tmp_path / "an opp directory"


def run(argv: list[object], **variables: object) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND")}
    environment = {**clean, **{key: str(value) for key, value in variables.items()}}
    return subprocess.run([str(a) for a in argv], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)  # fmt: skip


@pytest.fixture
def repack(real: Real, tmp_path: Path) -> Callable[..., Path]:
    """The real package of an operator under another version or vendor, optionally with another library."""

    def make(operator: str, *, version: str = "0.1.0", vendor: str = "", library: bytes | None = None) -> Path:
        tree = tmp_path / f"tree {vendor} {version}"
        assert run(["bash", real.package(operator), "--noexec", "--target", tree]).returncode == 0
        own = f"mxrec_{operator}"
        if vendor:
            (tree / "packages/vendors" / own).rename(tree / "packages/vendors" / vendor)
        if library is not None:
            (tree / "packages/vendors" / (vendor or own) / OPAPI).write_bytes(library)
        out = tmp_path / f"packages to install/{vendor or own}-{version}.run"
        package = vendor or f"mxrec_opp_{operator}"
        argv = ["bash", PACKAGING / "make_run.sh", "--tree", tree, "--vendor", vendor or own, "--package", package]
        done = run([*argv, "--version", version, "--out", out])
        assert done.returncode == 0, done.stderr
        return out

    return make


def look(opp: Path, toolkit: Path | str = "", **variables: str) -> State:
    variables = {**variables, "ASCEND_HOME_PATH": str(toolkit)}
    return scan(Environment.of(variables, opp=str(opp)), verified=True)


def errors(state: State) -> list[str]:
    return [f"{p.vendor}: {p.message}" for p in state.problems or () if p.severity == "error"]


def tree_state(root: Path) -> dict[str, str]:
    files = (p for p in sorted(root.rglob("*")) if p.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def camel(operator: str) -> str:
    return "".join(part.capitalize() for part in operator.split("_"))


# On the host


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
    with pytest.raises(UsageError, match="unknown SoC 'ascend310p'; valid: ascend910_93, ascend910b"):
        commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,), soc="ascend310p")


def test_the_packages_of_both_socs_have_names_of_their_own(real: Real) -> None:
    step = real.session.plan.step("packages")
    found = {path.name for path in Artefacts(real.session.paths).directory(step).glob("*.run")}
    end = f"twin_{real.session.plan.arch}.run"
    expected = {f"mxrec_opp_all_{soc}_{end}" for o in real.session.versions.operators.values() for soc in o.socs}
    for name, operator in real.session.versions.operators.items():
        expected |= {f"mxrec_opp_{name}_{soc}_{end}" for soc in operator.socs}
    assert found == expected


# Two vendors


def test_two_vendors_with_one_operator(
    real: Real, output: io.StringIO, opp: Path, repack: Callable[..., Path]
) -> None:  # fmt: skip
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
    # The same place in the image, where nothing else serves the operator; the package's own script sets the variable.
    place = Mount(source=custom, name=str(custom).lstrip("/"))
    (custom / "an empty opp").mkdir()
    script = 'source "$0/bin/set_env.bash" && echo "FROM $ASCEND_CUSTOM_OPP_PATH" && exec python -c "$1"'
    lines = in_image(real, ["bash", "-c", script, str(entry), PROGRAM], place, ASCEND_OPP_PATH=f"{custom}/an empty opp")
    assert lines == [f"FROM {entry}", "RESULT [0, 2, 5, 9]", f"FROM {{'{entry / OPAPI}'}}"]


# Users and places


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
    environment = s.engine.locate(s.plan, s.plan.step("environment"))
    for operator, options in ((DENSE, []), (CUMSUM, []), (CUMSUM, ["--uninstall"])):
        package = real.package(operator)
        argv = ["docker", "run", "--rm", "--network=none", f"--volume={opp}:/opp:ro", f"--volume={package}:/a.run:ro"]
        done = run([*argv, "--env=ASCEND_OPP_PATH=/opp", environment, "bash", "/a.run", *options])
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


# Damage


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_library_is_found(real: Real, output: io.StringIO, opp: Path, damage: str) -> None:
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    library = opp / f"vendors/mxrec_{CUMSUM}" / OPAPI
    content = bytearray(library.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    else:
        del content[2000:]
    library.write_bytes(content)
    found = errors(look(opp, real.twin))
    assert f"mxrec_{CUMSUM}: changed since it was packed: {OPAPI}" in found or "cannot be read" in str(found)
    assert commands.opp(Choices(), "verify", into=str(opp)) == 1


def test_a_toolkit_without_its_libraries_is_named(real: Real, output: io.StringIO, opp: Path, tmp_path: Path) -> None:
    commands.install_ops(Choices(), into=str(opp), operators=(CUMSUM,))
    for name in ("empty", "stub"):
        (tmp_path / name / "lib64").mkdir(parents=True)
        shutil.copy(real.twin / "version.info", tmp_path / name)
    toolkit = tmp_path / "empty"
    assert any("needs libascendcl.so, libnnopbase.so, not found" in message for message in errors(look(opp, toolkit)))
    toolkit = tmp_path / "stub"
    (toolkit / "lib64/libascendcl.so").write_bytes((real.twin / "lib64/libascendcl.so").read_bytes())
    stub = tmp_path / "stub.c"
    stub.write_text("int nothing(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", toolkit / "lib64/libnnopbase.so", stub], check=True)
    assert any("has undefined symbols: " in message for message in errors(look(opp, toolkit)))


# In the image


def test_the_vendors_of_the_image(real: Real, output: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    s = real.session
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    capsys.readouterr()
    assert commands.opp(Choices(), "verify", image=True, as_json=True) == 0
    state = json.loads(capsys.readouterr().out)
    assert {c["vendor"]["name"] for c in state["found"]} == {f"mxrec_{name}" for name in real.operators}
    assert state["problems"] == [] and all(c["not_asked"] == "" for c in state["found"])
    assert commands.opp(Choices(), "which", camel(CUMSUM), image=True) == 0
    assert f"served by mxrec_{CUMSUM}" in output.getvalue()
    with pytest.raises(UsageError, match="cannot be removed from it"):
        commands.opp(Choices(), "remove", f"mxrec_{CUMSUM}", image=True)


IN_IMAGE = """
set -eu
vendors=$ASCEND_OPP_PATH/vendors
version() { sed -n "s/^package_version=//p" $vendors/mxrec_$1/version.info; }
first() { sed -n "s/^load_priority=//p" $vendors/config.ini | cut -d, -f1; }
bash /newer.run | sed -n 1p
echo "first $(first), version $(version asynchronous_complete_cumsum)"
bash /real.run | sed -n 1p
bash /real.run | sed -n 1p
echo "version $(version asynchronous_complete_cumsum)"
setpriv --reuid=65534 --clear-groups bash /real.run || echo "refused to a user"
HOME=/tmp setpriv --reuid=65534 --clear-groups bash /real.run --quiet --install-path="/tmp/his own opp"
bash /real.run --uninstall --quiet
echo "first $(first)"
"""


def test_packages_in_the_image(real: Real, output: io.StringIO, repack: Callable[..., Path]) -> None:
    s = real.session
    execute(s.plan, s.engine, s.paths, s.fetch, s.console)
    volumes = [
        f"--volume={real.package(CUMSUM)}:/real.run:ro",
        f"--volume={repack(CUMSUM, version='2.0.0')}:/newer.run:ro",
    ]
    image = s.engine.locate(s.plan, s.plan.image)
    done = run(["docker", "run", "--rm", "--network=none", *volumes, image, "bash", "-c", IN_IMAGE])
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert last in {f"first mxrec_{name}" for name in real.operators if name != CUMSUM}
    assert lines == [
        f"upgrading mxrec_opp_{CUMSUM} from 0.1.0 to 2.0.0",
        f"first mxrec_{CUMSUM}, version 2.0.0",
        f"downgrading mxrec_opp_{CUMSUM} from 2.0.0 to 0.1.0",
        f"reinstalling mxrec_opp_{CUMSUM} 0.1.0",
        "version 0.1.0",
        "refused to a user",
        "SUCCESS",
        "SUCCESS",
    ]
    assert "cannot write into" in done.stderr
