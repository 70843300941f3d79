"""`inv test --slow`: which files, in what container, and which of their runs speak of the present sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from evidence_checkout import ROOT, made_in, session, words

from grstack import slow
from grstack.errors import UsageError
from grstack.evidence import command, measured, renew, table


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made_in(tmp_path)


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
