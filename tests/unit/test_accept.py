"""`inv accept` on an engine whose programs leave what the test says: states, going on, the report, the archive."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from grstack import commands, fetch, session
from grstack.accept import command, machine, report
from grstack.accept.parts import PARTS, chosen
from grstack.accept.results import Acceptance, Result, read_tests
from grstack.choices import Choices
from grstack.engines import Mount
from grstack.engines.fake import FakeEngine
from grstack.errors import UsageError
from grstack.launch.access import Access
from grstack.plan import Plan
from tests.machines import atlas

ROOT = Path(__file__).resolve().parents[2]
Accept = Callable[..., int]
GOOD = (
    '<testsuites><testsuite tests="3" failures="0" errors="0" skipped="1"><testcase name="a"/></testsuite></testsuites>'
)
BAD = (
    '<testsuites><testsuite tests="2" failures="1" errors="0" skipped="0"><testcase classname="s" name="a"/>'
    '<testcase classname="s" name="b"><failure>1 &lt; 2 is wrong</failure></testcase></testsuite></testsuites>'
)


class Devices(FakeEngine):
    """Each part's exit code, and its JUnit file; a part without a code passes."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, int | BaseException] = {}
        self.xml: dict[str, str] = {}
        self.ran: list[str] = []
        self.envs: list[Mapping[str, str]] = []

    def run(
        self,
        plan: Plan,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
        interactive: bool = False,
        apart: str = "",
        access: Access | None = None,
    ) -> int:
        self.runs.append(tuple(argv))
        self.envs.append(env or {})
        part = next(part for part in PARTS if f"{part.minutes}m" == argv[3] and set(self._heads(part)) <= set(argv))
        self.ran.append(part.name)
        out = next(mount.source for mount in mounts if mount.name == "out")
        code = self.codes.get(part.name, 0)
        if isinstance(code, BaseException):
            raise code
        if part.results:
            (out / part.results).write_text(self.xml.get(part.name, GOOD))
        if part.figures:
            figures = (
                [{"operator": "x", "ms": 1.5}]
                if part.name == "operator_times"
                else {"processor": "<one>", "devices": [{}, {}]}
            )
            file = out / part.figures.replace("*", "x")
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(figures))
        return code

    @staticmethod
    def _heads(part: object) -> list[str]:
        argv = part.argv  # type: ignore[attr-defined]
        junit = [word.replace("OUT", "/out") for word in argv if word.startswith("--junit-xml")]
        return junit or [word for word in argv if "." in word and "/" not in word] or ["smoke_tests"]


@pytest.fixture
def engine() -> Devices:
    return Devices()


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Devices) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in ("build", "data", ".git", ".venv"):
            (root / entry.name).symlink_to(entry)
    monkeypatch.setenv("GRSTACK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GRSTACK_TORCH_BUILD", "plain")
    monkeypatch.setattr(commands, "ROOT", root)
    monkeypatch.setattr(session, "find_engine", lambda *args: engine)
    monkeypatch.setattr(fetch, "fetch_wheels", lambda *args, **more: {})
    monkeypatch.setattr(fetch, "fetch_data", lambda root, name, dest, from_file=None: dest / name)
    monkeypatch.setattr(commands, "_console", lambda: Console(file=io.StringIO(), width=200))
    return root / "build/accept"


@pytest.fixture
def accept(build: Path, tmp_path: Path) -> Callable[..., int]:
    host = atlas(tmp_path / "host", devices=[0, 1])
    return lambda platform="cann", **more: commands.accept(Choices(platform=platform), None, host, **more)


def test_all_parts_pass_and_are_packed(accept: Accept, build: Path, engine: Devices) -> None:
    assert accept() == 0
    assert engine.ran == [part.name for part in PARTS]
    assert all(env["GRSTACK_INSTALLED_OPERATORS"] == "1" for env in engine.envs)
    assert [env["GRSTACK_NPUS"] for env in engine.envs] == ["2"] * len(PARTS)
    content = json.loads((build / "cann/accept.json").read_text())
    assert not content["emulated"] and {result["state"] for result in content["results"]} == {"passed"}
    assert content["results"][2]["tests"] == {"passed": 2, "failed": 0, "skipped": 1}
    page = (build / "cann/accept.html").read_text()
    assert f"{len(PARTS)} of {len(PARTS)} parts passed" in page and "&lt;one&gt;" in page and "<one>" not in page
    archive = next(build.glob("grstack-accept-*.zip"))
    assert {"accept.html", "accept.json", "machine.json"} <= set(zipfile.ZipFile(archive).namelist())


def test_a_part_that_fails_stops_no_other_and_runs_again(accept: Accept, build: Path, engine: Devices) -> None:
    engine.codes, engine.xml = {"gr_ops": 1, "smoke": 124}, {"gr_ops": BAD}
    assert accept() == 1
    assert len(engine.ran) == len(PARTS)
    run = Acceptance.read(build / "cann/accept.json")
    assert run is not None and not run.passed
    states = {result.part: result.state for result in run.results if result.state != "passed"}
    assert states == {"smoke": "took too long", "gr_ops": "failed"}
    assert run.of("gr_ops").failures == {"s::b": "1 < 2 is wrong"}  # type: ignore[union-attr]
    assert "1 &lt; 2 is wrong" in (build / "cann/accept.html").read_text()

    engine.codes, engine.xml, engine.ran = {}, {}, []
    assert accept() == 0
    assert engine.ran == ["smoke", "gr_ops"]
    engine.ran = []
    assert accept(again=True, only="smoke") == 1  # of this run the others have not run
    assert engine.ran == ["smoke"]


def test_ctrl_c_keeps_what_is_done(accept: Accept, build: Path, engine: Devices) -> None:
    engine.codes = {"operators": KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        accept()
    engine.codes, engine.ran = {}, []
    assert accept() == 0
    assert engine.ran == [part.name for part in PARTS][2:]


def test_a_part_that_passes_alone_says_why_the_whole_has_not(accept: Accept, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(commands, "_console", lambda: Console(file=out, width=200))
    assert accept(only="smoke") == 1
    said = f"{len(PARTS) - 1} parts not run, so the whole has not passed; next: the same command without --only"
    assert said in out.getvalue()
    assert accept() == 0 and out.getvalue().count("not run, so") == 1


@pytest.mark.parametrize("has", [True, False])
def test_the_machine_says_whether_the_toolkit_s_compilers_have_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    """On the base's Python, where the one that stands first on PATH is the environment's, and on that."""
    if has:
        (tmp_path / "home/python/site-packages/tbe").mkdir(parents=True)
        (tmp_path / "home/python/site-packages/tbe/__init__.py").touch()
    (tmp_path / "base").mkdir()
    own = tmp_path / "base/python3"
    own.symlink_to(sys.executable)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{own.parent}")
    facts = machine.look({"emulated": False})
    found = "tbe imports" if has else "tbe does not import (ModuleNotFoundError: No module named 'tbe')"
    assert facts["the toolkit's compilers"] == f"{found} with {own}"
    assert facts["the same, while programs run"] == f"{found} with {sys.executable}"
    assert not {"the toolkit's compilers", "the same, while programs run"} & machine.look({"emulated": True}).keys()


def test_what_needs_more_devices_than_there_are_is_left_and_says_so(
    build: Path, tmp_path: Path, engine: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tests would all be skipped, which is no success and no fault either."""
    out = io.StringIO()
    monkeypatch.setattr(commands, "_console", lambda: Console(file=out, width=200))
    assert commands.accept(Choices(platform="cann"), None, atlas(tmp_path / "host", devices=[0])) == 1
    assert engine.ran == [part.name for part in PARTS if part.name != "hccl"]
    run = Acceptance.read(build / "cann/accept.json")
    assert run is not None
    why = "2 NPUs are needed, this run has 1"
    assert (run.of("hccl").state, run.of("hccl").failures) == ("not run", {"not tried": why})  # type: ignore[union-attr]
    assert out.getvalue().count(why) == 2 and "the same command without --only" not in out.getvalue()
    page = (build / "cann/accept.html").read_text()
    assert why in page and "hccl: not run" in page and "1 not run" in page and "failed</h2>" not in page


def test_no_test_that_ran_is_no_success(accept: Accept, build: Path, engine: Devices) -> None:
    engine.xml = {"torchrec": '<testsuites><testsuite tests="2" failures="0" errors="0" skipped="2"/></testsuites>'}
    assert accept(only="torchrec") == 1
    run = Acceptance.read(build / "cann/accept.json")
    assert run is not None and run.of("torchrec").state == "failed"  # type: ignore[union-attr]
    assert [result.state for result in run.results].count("not run") == len(PARTS) - 1


def test_a_rehearsal_is_shorter_and_says_what_it_is(accept: Accept, build: Path, engine: Devices) -> None:
    assert accept("twin") == 0
    assert not any("GRSTACK_INSTALLED_OPERATORS" in env for env in engine.envs)
    operators = engine.runs[[part.name for part in PARTS].index("operators")]
    assert operators[-1] == "/source/kernels/operators/asynchronous_complete_cumsum/tests"
    assert "times say nothing of hardware" in (build / "twin/accept.html").read_text()
    assert not list(build.glob("*.zip"))


def test_what_the_parts_name_is_there() -> None:
    for part in PARTS:
        for word in (*part.argv, *part.rehearsal):
            for before in ("SOURCE/", "--ignore=SOURCE/"):
                if word.startswith(before):
                    assert (ROOT / word.removeprefix(before)).exists(), (part.name, word)
    with pytest.raises(UsageError, match="unknown part 'smok'"):
        chosen("machine,smok")


def test_no_test_for_real_devices_wants_what_only_the_gate_hands_over() -> None:
    """The locked wheels: the image holds none."""
    wanted = re.compile(r"upstream_(wheel|tree)|GRSTACK_WHEELS")
    found = {str(file.relative_to(ROOT)) for file in files_of_parts() if wanted.search(file.read_text())}
    assert found == {"gr_model/tests/test_sweep.py"}  # a slow test, which takes the index's where it is handed none


TWINS_OWN = re.compile(r"\bTWIN_(COUNTS|COMPUTE|STREAMS|NPU_SOC|NPU_MEMORY)=|\bTWIN_(COUNTS|COMPUTE|STREAMS)\"")
ALSO_WITHOUT = {  # what reads lines of its own, or counts where there are any
    "gr_model/tests/test_report.py",
    "kernels/gr_ops/tests/test_cuda_recommender.py",
}


def files_of_parts() -> list[Path]:
    suites = [part for part in PARTS if part.results]
    places = {
        ROOT / word.removeprefix("SOURCE/") for part in suites for word in part.argv if word.startswith("SOURCE/")
    }
    left = [ROOT / word.removeprefix("--ignore=SOURCE/") for part in suites for word in part.argv if "ignore=" in word]
    folders = [file for place in places if place.is_dir() for file in place.rglob("test_*.py")]
    files = {*folders, *(place for place in places if place.is_file())}
    return sorted(file for file in files if not any(place in (file, *file.parents) for place in left))


def test_what_only_emulated_devices_show_is_left_out_on_real_ones() -> None:
    """By the mark: a count is no fault of a device that counts nothing."""
    for part in (part for part in PARTS if part.results):
        assert part.argv[part.argv.index("not slow and not emulated") - 1] == "-m"
        assert part.rehearsal[part.rehearsal.index("not slow") - 1] == "-m"
    found = {str(file.relative_to(ROOT)) for file in files_of_parts() if TWINS_OWN.search(file.read_text())}
    found -= ALSO_WITHOUT
    assert len(found) >= 8
    assert not [name for name in sorted(found) if "pytest.mark.emulated" not in (ROOT / name).read_text()]


# Which code of aclnn a fault gets, and the text, are each toolkit's own: kernels/operators/common/tests/refusals.py.
PINNED = re.compile(r"(?<![\d.])(161|361|561|507)\d{3}\b|AclnnError, match=|with refused\([^)]")


def pinned(source: str) -> list[str]:
    """The lines that pin a code or a text of the emulation, outside tests marked `emulated`."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        marked = isinstance(node, ast.FunctionDef) and any(
            "mark.emulated" in ast.unparse(d) for d in node.decorator_list
        )
        if marked:
            first = min(part.lineno for part in (node, *node.decorator_list))  # type: ignore[attr-defined]
            lines[first - 1 : node.end_lineno] = [""] * (node.end_lineno - first + 1)  # type: ignore[operator]
    return [line.strip() for line in lines if PINNED.search(line)]


def test_no_test_for_real_devices_pins_a_code_or_text_of_the_emulation() -> None:
    found = {str(file.relative_to(ROOT)): pinned(file.read_text()) for file in files_of_parts()}
    assert len(found) >= 100
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_pinned_code_is_seen() -> None:
    wrong = 'def test_a(call):\n    with pytest.raises(AclnnError, match="161002"):\n        call()\n'
    assert len(pinned(wrong)) == 1
    assert pinned(f"@pytest.mark.emulated\n{wrong}") == []
    assert pinned(wrong.replace('pytest.raises(AclnnError, match="161002")', "refused()")) == []
    assert pinned("assert error.value.code in (161002, 561001)") and pinned("with refused('expected'): pass")
    assert pinned("0.561002") == []


def test_a_broken_file_of_results_is_a_failure(tmp_path: Path) -> None:
    assert read_tests(tmp_path / "none.xml")[0]["failed"] == 1
    (tmp_path / "half.xml").write_text(GOOD[:40])
    assert "cannot be read" in read_tests(tmp_path / "half.xml")[1]["the whole suite"]


def marks(page: str) -> dict[str, str]:
    """Of each row of the table of parts, what stands under "on hardware before"."""
    rows = [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", page.split("</table>")[0])]
    return {re.sub("<[^>]*>", "", cells[1]): cells[3] for cells in rows if cells}


def test_a_part_says_whether_it_ran_on_hardware_before(
    accept: Accept, build: Path, engine: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = "Ascend910B2 <CANN 8.3.RC1>, abcdef12"
    parts = tuple(replace(part, hardware=seen) if part.name == "smoke" else part for part in PARTS)
    monkeypatch.setattr(command, "PARTS", parts)
    assert accept(only="machine") == 1  # the others have not run
    never, before = '<span class="never">never</span>', "Ascend910B2 &lt;CANN 8.3.RC1&gt;, abcdef12"
    page = (build / "cann/accept.html").read_text()
    assert marks(page) == {part.name: before if part.name == "smoke" else never for part in PARTS}
    assert (
        f"{len(PARTS) - 1} of {len(PARTS)} parts were never run on hardware before; the first to be, here: machine."
        in page
    )
    content = json.loads((build / "cann/accept.json").read_text())
    assert {result["part"]: result["on_hardware_before"] for result in content["results"]} == {
        part.name: part.hardware for part in parts
    }


def test_a_rehearsal_is_no_run_on_hardware(accept: Accept, build: Path, engine: Devices) -> None:
    assert accept("twin") == 0
    page = (build / "twin/accept.html").read_text()
    assert f"{len(PARTS)} of {len(PARTS)} parts were never run on hardware before, nor are they here." in page
    assert set(marks(page).values()) == {'<span class="never">never</span>'}


def test_the_page_needs_nothing_from_outside() -> None:
    result = Result(part="smoke", claim="a < b", state="failed", rehearsed=True, log="logs/smoke.log")
    run = Acceptance(platform="twin", emulated=True, image="grstack/npu:twin", began="2026-01-01", results=[result])
    page = report.page(run)
    assert "http" not in page and "a &lt; b" in page and "0 of 1 parts passed" in page
