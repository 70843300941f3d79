"""`inv evidence`: stale where sources are others than the measured ones; renewed by a command, never by word."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from grstack import slow
from grstack.errors import SpecError, StepError, UsageError
from grstack.evidence import command, measured, renew, table

ROOT = Path(__file__).resolve().parents[2]
RENEW = "python -c \"import pathlib; pathlib.Path('benchmarks/results/speed.json').write_text('2')\""
TABLE = f"""
speed:
  command: {json.dumps(RENEW)}
  where: host
  sources: [fast, benchmarks/speed.py]
far:
  command: python -m benchmarks.far
  where: one NVIDIA H100
  sources: [fast]
"""


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", "-C", str(root), *who, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {
        "benchmarks/evidence.yaml": TABLE,
        "benchmarks/speed.py": "1",
        "benchmarks/results/speed.json": "1",
        "benchmarks/results/speed.md": "1",
        "benchmarks/results/far.json": "1",
        "fast/kernel.py": "1",
        "fast/tests/test_kernel.py": "1",
        "fast/README.md": "1",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def words(root: Path) -> dict[str, str]:
    return {state.name: state.word for state in command.states(root)}


def test_a_result_is_stale_when_a_source_changes_and_not_by_its_tests_and_pages(root: Path) -> None:
    assert words(root) == {"speed": "no key", "far": "no key"}
    command.record(root, ["speed", "far"], "HEAD")
    assert words(root) == {"speed": "present", "far": "present"}
    (root / "fast/tests/test_kernel.py").write_text("2")
    (root / "fast/README.md").write_text("2")
    assert words(root) == {"speed": "present", "far": "present"}
    (root / "benchmarks/speed.py").write_text("2")
    speed, far = command.states(root)
    assert (speed.word, speed.changed, far.word) == ("stale", ("benchmarks/speed.py",), "present")
    (root / "benchmarks/results/far.json").unlink()
    assert words(root)["far"] == "no result"


def test_what_is_recorded_is_the_commit_s_and_not_what_lies_there_now(root: Path) -> None:
    (root / "fast/kernel.py").write_text("2")
    said = command.record(root, ["far"], "HEAD")
    assert said == [f"far: measured on {git(root, 'log', '-1', '--format=%h of %cs').strip()}"]
    assert words(root)["far"] == "stale"
    with pytest.raises(UsageError, match="git does not know the commit 'nothing'"):
        command.record(root, ["far"], "nothing")
    with pytest.raises(UsageError, match="--record wants the commit"):
        command.record(root, ["far"], "")
    with pytest.raises(UsageError, match="unknown result 'fra'; valid: far, speed"):
        command.record(root, ["fra"], "HEAD")


def test_a_result_that_is_older_than_the_commit_was_not_measured_there(root: Path) -> None:
    (root / "fast/kernel.py").write_text("2")
    git(root, "commit", "-qam", "second")
    with pytest.raises(UsageError, match="far: the result is the one of a commit before"):
        command.record(root, ["far"], "HEAD")
    command.record(root, ["far"], "HEAD^")  # where it came
    assert words(root)["far"] == "stale"
    (root / "benchmarks/results/far.json").write_text("2")
    command.record(root, ["far"], "HEAD")
    assert words(root)["far"] == "present"


def test_rows_that_name_an_earlier_commit_speak_of_its_sources(root: Path) -> None:
    names = []
    for file in ("fast/README.md", "fast/kernel.py", "fast/tests/test_kernel.py"):
        (root / file).write_text("2")
        git(root, "commit", "-qam", file)
        names.append(measured.commit_and_day(root)[0])
    first, second, now = names
    (root / "benchmarks/results/far.json").write_text("2")

    def state(*commits: str) -> tuple[str, tuple[str, ...]]:
        rows = [{"ms": 1, "commit": commit} for commit in commits]
        (root / "benchmarks/results/speed.json").write_text(json.dumps({"rows": rows, "commit": now}))
        command.record(root, ["speed", "far"], now)
        found = next(state for state in command.states(root) if state.name == "speed")
        return found.word, found.changed

    assert state(f"{now}0") == ("present", ())
    assert state(second) == ("present", ()), "tests alone have changed since"
    assert state(second, first) == ("in part", (f"rows of {first}",))
    assert command.chosen(root, "stale") == [], "this machine has measured its rows"
    out = io.StringIO()
    assert command.listed(root, Console(file=out, width=200), as_json=False) == 1
    assert f"rows of {first}" in out.getvalue() and "1 of 2 do not speak" in out.getvalue()
    assert state("0123456789") == ("in part", ("rows of 0123456789",)), "git does not know it"
    (root / "fast/kernel.py").write_text("3")
    assert words(root)["speed"] == "stale"


def test_a_new_result_is_not_older_than_its_commit(root: Path) -> None:
    git(root, "rm", "-q", "benchmarks/results/far.json")
    git(root, "commit", "-qm", "no result of far")
    git(root, "commit", "-q", "--allow-empty", "-m", "measured")
    (root / "benchmarks/results").mkdir(exist_ok=True)
    (root / "benchmarks/results/far.json").write_text("1")
    command.record(root, ["far"], "HEAD")
    assert words(root)["far"] == "present"


def session(root: Path) -> Any:
    return SimpleNamespace(paths=SimpleNamespace(root=root), console=Console(file=io.StringIO(), width=200))


def test_renewing_runs_the_command_and_records_the_sources(root: Path) -> None:
    s = session(root)
    assert renew.renew(s, command.chosen(root, "stale")) == []
    assert (root / "benchmarks/results/speed.json").read_text() == "2"
    assert words(root) == {"speed": "present", "far": "no key"}
    found = measured.read(root)["speed"]
    assert set(found.sources) == {"fast", "benchmarks/speed.py"} and found.seconds is not None
    assert command.chosen(root, "stale") == []


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("pass", "the command of speed wrote none of its results"),
        (
            "import pathlib; [pathlib.Path(name).write_text('3') for name in ('fast/kernel.py', "
            "'benchmarks/results/speed.json')]",
            "the sources of speed changed while it was measured",
        ),
    ],
)
def test_what_measured_nothing_or_other_sources_is_not_recorded(root: Path, program: str, said: str) -> None:
    text = TABLE.replace(json.dumps(RENEW), json.dumps(f'python -c "{program}"'))
    (root / "benchmarks/evidence.yaml").write_text(text)
    with pytest.raises(StepError, match=said):
        renew.renew(session(root), command.chosen(root, "speed"))
    assert measured.read(root) == {}


CONTINUED = """
import pathlib
rows = pathlib.Path('build/rows/all')
rows.parent.mkdir(parents=True, exist_ok=True)
rows.write_text((rows.read_text() if rows.exists() else '') + '1')
pathlib.Path('benchmarks/results/speed.json').write_text(rows.read_text())
"""


def test_a_run_goes_on_where_it_was_cut_off_on_the_same_sources_only(root: Path) -> None:
    (root / "continued.py").write_text(CONTINUED)
    text = TABLE.replace(json.dumps(RENEW), "python continued.py --output build/rows")
    (root / "benchmarks/evidence.yaml").write_text(text)
    (root / "build/rows").mkdir(parents=True)
    (root / "build/rows/all").write_text("9")

    def renewed() -> str:
        assert renew.renew(session(root), command.chosen(root, "speed")) == []
        return (root / "benchmarks/results/speed.json").read_text()

    assert [renewed(), renewed()] == ["1", "11"], "9 is of sources that nobody knows"
    (root / "fast/kernel.py").write_text("2")
    assert renewed() == "1"
    aside = [(root / f"build/rows-before-{number}/all").read_text() for number in (1, 2)]
    assert aside == ["9", "11"], "what may be somebody's is moved, not deleted"


def test_a_command_that_fails_is_named_and_not_recorded(root: Path) -> None:
    failing = TABLE.replace(json.dumps(RENEW), "python -c 'raise SystemExit(3)'")
    (root / "benchmarks/evidence.yaml").write_text(failing)
    s = session(root)
    assert renew.renew(s, command.chosen(root, "speed")) == ["speed"]
    assert "speed ended with exit code 3" in s.console.file.getvalue()
    assert measured.read(root) == {}


def test_what_another_machine_must_measure_says_where_and_how_it_comes_back(root: Path) -> None:
    with pytest.raises(UsageError, match="far needs one NVIDIA H100") as error:
        renew.check(command.chosen(root, "far,speed"))
    assert "inv evidence --record far --commit" in str(error.value)


def test_a_source_that_is_not_there_is_a_fault_of_the_table(root: Path) -> None:
    (root / "benchmarks/speed.py").unlink()
    with pytest.raises(SpecError, match="speed speaks of benchmarks/speed.py, which is not there"):
        command.states(root)


def test_the_list_for_programs_and_its_exit_code(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.record(root, ["speed"], "HEAD")
    assert command.listed(root, Console(file=io.StringIO()), as_json=True) == 1
    rows = json.loads(capsys.readouterr().out)
    assert {name: row["state"] for name, row in rows.items()} == {"speed": "present", "far": "no key"}
    command.record(root, ["far"], "HEAD")
    assert command.listed(root, Console(file=io.StringIO()), as_json=True) == 0


def test_every_committed_result_is_in_the_table_and_has_the_keys_of_what_was_measured() -> None:
    there = {file.stem for file in (ROOT / table.RESULTS).iterdir()}
    there |= {file.stem for file in (ROOT / "docs/generated").glob("*.json")}
    assert set(table.load(ROOT)) == there
    assert set(measured.read(ROOT)) == there - {slow.NAME}, "of slow tests each row has its own key"
    assert all(re.fullmatch("[0-9a-f]{12}", row["key"]) and row["commit"] for row in slow.read(ROOT).values())
    for name in measured.read(ROOT):
        evidence = table.load(ROOT)[name]
        assert set(measured.read(ROOT)[name].sources) == set(evidence.sources), name


def imported(file: Path) -> set[Path]:
    """The files of benchmarks/ and smoke_tests/ that a program imports, with those that these import."""
    found, left = set(), {file}
    while left:
        found.add(one := left.pop())
        package = ".".join(one.relative_to(ROOT).parent.parts)
        for node in ast.walk(ast.parse(one.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                module = f"{package}.{node.module or ''}".strip(".") if node.level else node.module or ""
                names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in (*names, *(f"benchmarks.{name}" for name in names)):
                path = ROOT / name.replace(".", "/")
                if name.split(".")[0] in ("benchmarks", "smoke_tests"):
                    left |= {p for p in (path.with_suffix(".py"), path / "__init__.py") if p.exists()} - found
    return {path for path in found if path.name != "__init__.py"}


def programs(evidence: table.Evidence) -> Iterator[Path]:
    """Those of benchmarks/ in its command."""
    for word in shlex.split(evidence.command, comments=True):
        module = ROOT / word.replace(".", "/")
        places = (module.with_suffix(".py"), module / "__main__.py", ROOT / word)
        program = next((path for path in places if path.suffix == ".py" and path.is_file()), None)
        if program is not None and ROOT / "benchmarks" in program.parents:
            yield program


def test_a_result_speaks_of_its_program_and_of_what_that_imports() -> None:
    for name, evidence in table.load(ROOT).items():
        for program in programs(evidence):
            sources = [ROOT / source for source in evidence.sources]
            left_out = {p for p in imported(program) if not any(p == s or s in p.parents for s in sources)}
            assert not left_out, (name, left_out)


HOMES = {
    "gr_model": "gr_model",
    "gr_ops": "kernels/gr_ops",
    "grstack": "grstack",
    "hybrid_torchrec": "embeddings/hybrid_torchrec",
    "torchrec_embcache": "embeddings/torchrec_embcache",
}
OTHER_COMMANDS = {("twin-robustness", "gr_model"), ("twin-sharded", "gr_model")}  # `twin.py cost` imports it


def test_a_result_speaks_of_the_packages_that_its_program_imports() -> None:
    """Of a part of each at least: not all of a package is in every figure."""
    for name, evidence in table.load(ROOT).items():
        sources = [ROOT / source for source in evidence.sources]
        for file in {file for program in programs(evidence) for file in imported(program)}:
            nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
            names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
            names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
            for top in {each.split(".")[0] for each in names} & set(HOMES):
                home = ROOT / HOMES[top]
                there = any(s == home or s in home.parents or home in s.parents for s in sources)
                assert there != ((name, top) in OTHER_COMMANDS), (name, top)


def test_a_result_of_a_native_library_speaks_of_all_that_is_compiled_into_it() -> None:
    """Hash tables have row_math in them, cached tables are hash tables."""
    for name, evidence in table.load(ROOT).items():
        sources = set(evidence.sources)
        if sources & {"embeddings", "embeddings/hybrid_torchrec", "embeddings/torchrec_embcache"}:
            assert sources & {"kernels", "kernels/row_math"}, name
        if "embeddings/torchrec_embcache" in sources:
            assert "embeddings/hybrid_torchrec" in sources, name
        if "kernels/gr_ops/csrc" in sources:
            assert "kernels/gr_ops/CMakeLists.txt" in sources, f"{name}: it has the compiler's options"


def test_runs_that_a_renewal_keeps_name_their_commit() -> None:
    """smoke_quality.py runs the present settings alone, beside those that were compared before."""
    runs = json.loads((ROOT / table.RESULTS / "smoke-quality.json").read_text(encoding="utf-8"))
    assert len({run["settings"] for run in runs}) > 2 and all(run["commit"] for run in runs)


def test_a_renewed_toolchain_has_the_cold_build_that_pages_quote_and_is_never_renewed_unasked() -> None:
    evidence = table.load(ROOT)["toolchain"]
    assert "--cold" in shlex.split(evidence.command) and not evidence.runs_here, "it removes what is built"


def row(**counts: int) -> dict[str, Any]:
    rest = {"key": "k", "commit": "c", "date": "2026-01-01", "seconds": 1, "failures": {}}
    return {**rest, "passed": 0, "failed": 0, "skipped": 0, **counts}


def test_slow_tests_have_passed_on_these_sources_only_and_not_without_a_test() -> None:
    assert slow.passed(row(passed=1), "k") and slow.passed(row(passed=1, skipped=1), "k")
    assert not slow.passed(row(), "k"), "no test ran"
    assert not slow.passed(row(skipped=1), "k") and slow.skipped(row(skipped=1), "k"), "nothing was shown"
    assert not slow.skipped(row(), "k") and not slow.skipped(row(skipped=1, failed=1), "k")
    assert not slow.passed(row(passed=1), "other") and not slow.passed(row(passed=1, failed=1), "k")
    assert not slow.passed(None, "k")


@pytest.mark.parametrize(
    ("code", "failed", "counts"), [(0, 0, (2, 0)), (134, 0, (2, 1)), (1, 1, (1, 1)), (5, 0, (2, 1))]
)
def test_a_process_that_ends_badly_after_its_tests_has_failed(
    tmp_path: Path, code: int, failed: int, counts: tuple[int, int]
) -> None:
    file = tmp_path / "results.xml"
    test = '<testcase classname="a" name="b"><failure>no</failure></testcase>' if failed else ""
    file.write_text(f'<testsuites><testsuite tests="2" failures="{failed}">{test}</testsuite></testsuites>')
    found = slow.row_of(file, code, "k", "c", 1)
    assert (found["passed"], found["failed"]) == counts and slow.passed(found, "k") == (code == 0)
    assert bool(found["failures"]) == (code != 0)


@pytest.fixture
def with_slow_tests(root: Path) -> Path:
    for name, text in {
        "gr_model/tests/test_a.py": "@pytest.mark.image",
        "gr_model/tests/cuda/test_b.py": "@pytest.mark.slow",
        "gr_model/tests/test_z.py": "@pytest.mark.slow",
        "tests/integration/helper.py": "pytestmark = pytest.mark.slow",
        "tests/integration/test_c.py": "pytestmark = pytest.mark.slow",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


SLOW = {
    "gr_model/tests/test_z.py": "gr_model/tests",
    "gr_model/tests/cuda/test_b.py": "gr_model/tests/cuda",
    "tests/integration/test_c.py": "tests/integration",
}


def test_the_slow_tests_are_the_files_with_the_mark_each_in_its_own_suite(with_slow_tests: Path) -> None:
    assert slow.with_slow_tests(with_slow_tests) == SLOW


def test_slow_tests_are_chosen_by_suite_or_file() -> None:
    assert slow.chosen("", SLOW) == list(SLOW)
    assert slow.chosen("gr_model/tests", SLOW) == ["gr_model/tests/test_z.py"]
    assert slow.chosen("tests/integration,gr_model/tests/test_z.py", SLOW) == [
        "gr_model/tests/test_z.py",
        "tests/integration/test_c.py",
    ]
    with pytest.raises(UsageError, match=r"unknown suite or file with slow tests .tests/integration/test_d\.py."):
        slow.chosen("tests/integration/test_d.py", SLOW)


def test_the_container_of_a_file_has_the_least_memory_that_its_tests_ask_for(tmp_path: Path) -> None:
    assert slow.memory_of(ROOT / "embeddings/torchrec_embcache/tests/test_many_ids.py") == 1024
    file = tmp_path / "test_a.py"
    file.write_text("@pytest.mark.memory(mib=300)\n@pytest.mark.memory(mib=200)\n")
    assert slow.memory_of(file) == 200
    file.write_text("@pytest.mark.slow\n")
    assert slow.memory_of(file) == 0


def test_a_changed_slow_test_has_not_passed(with_slow_tests: Path) -> None:
    file, other = "tests/integration/test_c.py", "gr_model/tests/test_z.py"
    with (with_slow_tests / "benchmarks/evidence.yaml").open("a") as stream:
        stream.write("slow-tests:\n  command: inv test --slow\n  where: host\n  sources: [fast]\n")
    before = slow.keys_of(with_slow_tests, SLOW)
    (with_slow_tests / file).write_text("pytestmark = pytest.mark.slow  # mended")
    after = slow.keys_of(with_slow_tests, SLOW)
    assert before[file] != after[file] and before[other] == after[other]


def test_a_slow_test_in_the_image_is_as_old_as_what_its_suite_stands_on(with_slow_tests: Path) -> None:
    root, outside, inside = with_slow_tests, "tests/integration/test_c.py", "gr_model/tests/test_z.py"
    with (root / "benchmarks/evidence.yaml").open("a") as stream:
        stream.write("slow-tests:\n  command: inv test --slow\n  where: host\n  sources: [fast, gr_model]\n")

    def after(change: str) -> set[str]:
        before = slow.keys_of(root, SLOW)
        (root / change).parent.mkdir(parents=True, exist_ok=True)
        (root / change).write_text("2")
        return {file for file, key in slow.keys_of(root, SLOW).items() if before[file] != key}

    assert after("fast/kernel.py") == {outside} and after("smoke_tests/check.py") == set()
    assert after("kernels/gr_ops/csrc/op.cpp") == after("kernels/row_math/row.h") == set(SLOW) - {outside}
    assert after("versions.yaml") == set(SLOW) - {outside} and inside in after("tests/start/ranks.py")
    assert after("gr_model/tests/helper.py") == {inside} and after("gr_model/tests/test_z2.py") == set()
    assert after("kernels/packaging/pack.py") == after("docker/npu/Dockerfile") == set(SLOW) - {outside}
    assert after("twin/cores/core.cpp") == set(SLOW) - {outside} and after("gr_model/train.py") == set(SLOW)


def test_slow_tests_renew_the_results_that_they_write(with_slow_tests: Path, tmp_path: Path) -> None:
    root, file = with_slow_tests, "gr_model/tests/test_z.py"
    with (root / "benchmarks/evidence.yaml").open("a") as stream:
        stream.write(f"kills:\n  command: python -m pytest {file}\n  sources: [fast]\n")
        stream.write("  environment: {REPORT: benchmarks/results/kills.json}\n")
    (kills,) = slow.reports_of(root, file).items()
    assert kills[0] == "kills" and slow.reports_of(root, "tests/integration/test_c.py") == {}
    folder = tmp_path / "found"
    folder.mkdir()
    how = measured.Measured(commit="c", date="2026-01-01", sources=measured.keys_of(root, ["fast"]))
    slow.keep(root, folder, "kills", how)
    assert "kills" not in measured.read(root), "no file was written: the tests were skipped"
    (folder / "kills.json").write_text("300")
    (folder / "kills.xml").write_text("no result")
    slow.keep(root, folder, "kills", how)
    assert (root / "benchmarks/results/kills.json").read_text() == "300"
    assert not (root / "benchmarks/results/kills.xml").exists() and words(root)["kills"] == "present"


def test_the_slow_tests_that_write_results_are_those_of_the_table() -> None:
    known = slow.with_slow_tests(ROOT)
    written = {name for file in known for name in slow.reports_of(ROOT, file)}
    assert written == {name for name, evidence in table.load(ROOT).items() if evidence.environment}
    variables = {variable for evidence in table.load(ROOT).values() for variable in evidence.environment}
    texts = [file.read_text() for file in (ROOT / "embeddings").rglob("tests/**/*.py")]
    assert not [variable for variable in variables if not any(variable in text for text in texts)]


def test_slow_tests_are_present_when_each_file_has_a_run_on_these_sources(with_slow_tests: Path) -> None:
    root = with_slow_tests
    with (root / "benchmarks/evidence.yaml").open("a") as stream:
        stream.write("slow-tests:\n  command: python -c pass\n  where: host\n  sources: [fast]\n")

    def state() -> tuple[str, tuple[str, ...]]:
        found = next(state for state in command.states(root) if state.name == slow.NAME)
        return found.word, found.changed

    assert state() == ("no result", ())
    keys = slow.keys_of(root, SLOW)
    for at, file in enumerate(SLOW):
        slow.write(root, file, {**row(passed=1), "key": keys[file]})
        left = len(SLOW) - 1 - at
        assert state() == (
            ("stale", (f"{left} of 3 files have not passed on these sources",)) if left else ("present", ())
        )
    for counts in ({"passed": 1, "failed": 1}, {"skipped": 1}):
        slow.write(root, file, {**row(**counts), "key": keys[file]})
        assert state() == ("stale", ("1 of 3 files have not passed on these sources",)), counts
    slow.write(root, file, {**row(passed=1), "key": keys[file]})
    with pytest.raises(UsageError, match="slow-tests: each of its rows has a commit of its own"):
        command.record(root, [slow.NAME], "HEAD")
    assert renew.renew(session(root), command.chosen(root, slow.NAME)) == []
    assert slow.NAME not in measured.read(root)
    (root / "tests/integration/test_c.py").write_text("pytestmark = pytest.mark.slow  # mended")
    assert state() == ("stale", ("1 of 3 files have not passed on these sources",))


def test_what_came_of_slow_tests_takes_the_place_of_their_last_run(with_slow_tests: Path) -> None:
    root, (first, second, third) = with_slow_tests, SLOW
    slow.write(root, first, row(passed=2))
    slow.write(root, second, row(passed=1))
    slow.write(root, first, {**row(passed=1, failed=1), "failures": {"test_x": "AssertionError"}})
    assert slow.read(root)[first]["failures"] == ["test_x"], "what pytest says has paths of the machine"
    assert {name: found["failed"] for name, found in slow.read(root).items()} == {first: 1, second: 0}
    page = (root / "benchmarks/results/slow-tests.md").read_text()
    assert f"| `{first}` | 1 | 1 | 0 | 1 | c | 2026-01-01 |" in page and "- `test_x`" in page
    assert page.endswith(f"Without a result, so far:\n\n- `{third}`\n")


def test_a_file_that_is_gone_has_no_row(with_slow_tests: Path) -> None:
    first, second, _ = SLOW
    slow.write(with_slow_tests, first, row(passed=2))
    (with_slow_tests / first).unlink()
    slow.write(with_slow_tests, second, row(passed=1))
    assert set(slow.read(with_slow_tests)) == {second}
