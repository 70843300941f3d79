"""`inv evidence`: stale where sources are others than the measured ones; renewed by a command, never by word."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from evidence_checkout import RENEW, ROOT, TABLE, git, made_in, session, words
from rich.console import Console

from grstack import slow
from grstack.errors import SpecError, StepError, UsageError
from grstack.evidence import command, measured, renew, table


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made_in(tmp_path)


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


def test_a_pinned_version_is_a_source_and_other_packages_are_none(root: Path) -> None:
    def lock(**versions: str) -> None:
        packages = [{"name": name, "variant": "plain", "version": version} for name, version in versions.items()]
        packages.append({"name": "torch", "variant": "cpu", "version": f"{versions['torch']}+cpu"})
        for python in ("3.10", "3.11"):
            (root / f"locks/npu-py{python}-x86_64.json").write_text(json.dumps({"packages": packages}))

    (root / "locks").mkdir()
    lock(torch="2.6.0", scipy="1")
    (root / "benchmarks/evidence.yaml").write_text(TABLE.replace("[fast]", "[fast, locks/npu:torch]"))
    git(root, "add", ".")
    git(root, "commit", "-qm", "second")
    (root / "benchmarks/results/far.json").write_text("2")
    command.record(root, ["far"], "HEAD")
    assert measured.read(root)["far"].sources["locks/npu:torch"] == "2.6.0"
    lock(torch="2.6.0", scipy="2")
    assert words(root)["far"] == "present"
    lock(torch="2.7.0", scipy="2")
    far = command.states(root)[1]
    assert (far.word, far.changed) == ("stale", ("locks/npu:torch",))
    lock(torch="2.7.0")
    (root / "benchmarks/evidence.yaml").write_text(TABLE.replace("[fast]", "[fast, locks/npu:scipy]"))
    with pytest.raises(SpecError, match="far speaks of locks/npu:scipy, which is not there"):
        command.states(root)


def test_a_result_that_is_not_as_it_was_written_is_told_before_its_sources(root: Path) -> None:
    command.record(root, ["speed", "far"], "HEAD")
    page = root / "benchmarks/results/speed.md"
    page.write_text("faster")
    (root / "benchmarks/speed.py").write_text("2")
    speed, far = command.states(root)
    assert (speed.word, speed.changed, far.word) == ("edited", ("speed.md", "benchmarks/speed.py"), "present")
    assert [state.name for state in command.chosen(root, "stale")] == ["speed"]
    page.unlink()
    assert words(root)["speed"] == "edited", "one of its files is gone"
    page.write_text("1")
    assert words(root)["speed"] == "stale"
    (root / "benchmarks/results/far.md").write_text("1")
    assert words(root)["far"] == "edited", "one came"


def test_a_new_result_is_not_older_than_its_commit(root: Path) -> None:
    git(root, "rm", "-q", "benchmarks/results/far.json")
    git(root, "commit", "-qm", "no result of far")
    git(root, "commit", "-q", "--allow-empty", "-m", "measured")
    (root / "benchmarks/results").mkdir(exist_ok=True)
    (root / "benchmarks/results/far.json").write_text("1")
    command.record(root, ["far"], "HEAD")
    assert words(root)["far"] == "present"


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
        files = table.files_of(ROOT, name, evidence.folder)
        assert measured.digests_of(files) == measured.read(ROOT)[name].results, f"{name}: edited since it was measured"


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


def test_a_result_speaks_of_the_pinned_packages_that_it_rests_on() -> None:
    """In the image; a machine with a GPU had others, which its results name."""
    of = {
        "embeddings": {"torch", "fbgemm-gpu-cpu", "torchrec"},
        "patches": {"torch", "fbgemm-gpu-cpu", "torchrec"},
        "twin": {"torch", "torch-npu"},
    }
    for name, evidence in table.load(ROOT).items():
        pins = {source.partition(":")[2] for source in evidence.sources if source.startswith("locks/npu:")}
        wanted = {"torch"}.union(*(of.get(source.split("/")[0], set()) for source in evidence.sources))
        if "locks" in evidence.sources or "GPU" in evidence.where or "NVIDIA" in evidence.where:
            assert not pins, name
        else:
            assert wanted <= pins, name
        if name.startswith("hstu-") and ROOT.joinpath(table.RESULTS, f"{name}.json").exists():
            assert "locks/gluon:triton" in evidence.sources, name


def test_runs_that_a_renewal_keeps_name_their_commit() -> None:
    """smoke_quality.py runs the present settings alone, beside those that were compared before."""
    runs = json.loads((ROOT / table.RESULTS / "smoke-quality.json").read_text(encoding="utf-8"))
    assert len({run["settings"] for run in runs}) > 2 and all(run["commit"] for run in runs)


def test_a_renewed_toolchain_has_the_cold_build_that_pages_quote_and_is_never_renewed_unasked() -> None:
    evidence = table.load(ROOT)["toolchain"]
    assert "--cold" in shlex.split(evidence.command) and not evidence.runs_here, "it removes what is built"
