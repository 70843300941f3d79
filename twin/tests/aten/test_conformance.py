"""The conformance run: it finds what is wrong, survives what crashes, and its committed tables say what it prints."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs/generated"
sys.path.insert(0, str(ROOT / "twin/python"))
from ascend_twin.conformance import cases, reasons, recommender, report, tally  # noqa: E402
from ascend_twin.conformance.outcome import Outcome  # noqa: E402

pytestmark = pytest.mark.twin
IN_PLACE = ("eq", "expm1", "floor_divide", "nn.functional.embedding_bag", "nn.functional.glu", "trunc", "xlogy")
PARTS = 12  # of the operators; each run takes one by chance, two samples at two data types each
PART = int(os.environ.get("GRSTACK_PART") or random.SystemRandom().randrange(PARTS)) % PARTS
SAMPLE = ("--every", str(PARTS), "--first", str(PART))


def conformance(library_dir: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "twin/python"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "TWIN_LIB64": library_dir, "PYTHONPATH": path}
    command = [sys.executable, "-m", "ascend_twin.conformance", "--jobs", "2", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def committed() -> dict[tuple[str, str], tally.Row]:
    return {(row.op, row.dtype): row for row in tally.read_csv(DOCS / "conformance.csv")}


@pytest.fixture(scope="module")
def sample(twin_lib64: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the sample."""
    folder = tmp_path_factory.mktemp("sample")
    done = conformance(twin_lib64, *SAMPLE, "--output", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "conformance.jsonl"


Table = dict[tuple[str, str], tally.Row]


def worse(rows: list[tally.Row], committed: Table) -> list[tally.Row]:
    """Those with a failing sample whose cause, other than a rounding, the committed table has not for that operator and
    type.
    """
    return [row for row in rows if set(row.causes) - set(committed[row.op, row.dtype].causes) - {reasons.ROUNDING}]


def fewer(rows: list[tally.Row], committed: Table) -> list[tally.Row]:
    """Those with other samples than the committed table has, or with more that fail by a cause but rounding."""

    def falls_short(row: tally.Row) -> bool:
        old = committed[row.op, row.dtype]
        more = {cause for cause, count in row.causes.items() if count > old.causes[cause]}
        return row.samples != old.samples or not more <= {reasons.ROUNDING}

    return [row for row in rows if falls_short(row)]


CLOSE, REFUSED = "Tensor-likes are not close!", "call aclnnMatmul failed, error code is 161002"
EMPTY = "cannot reshape tensor of 0 elements"
NORM, NORMED = "nn.functional.layer_norm", "float16"
Failed = dict[str, str]  # what a sample fails by: check -> error


def row(op: str, *failed_by: str, dtype: str = "float32") -> tally.Row:
    passed, failed = 2 - len(failed_by), Counter(forward=len(failed_by))
    return tally.Row(op, dtype, samples=2, passed=passed, failed=failed, causes=Counter(failed_by))


def counted(op: str, dtype: str, *samples: Failed) -> tally.Row:
    """As the run counts samples and their causes."""
    found = tally.Row(op, dtype)
    for failed in samples:
        found.add(Outcome(("forward", "backward", "strided"), tuple(failed.items())))
    return found


def test_a_new_cause_is_worse_and_a_known_one_is_not() -> None:
    known = {(op, "float32"): r for op, r in (("add", row("add")), ("qr", row("qr", "torch_npu")))}
    assert worse([row("add"), row("qr"), row("qr", "torch_npu", "torch_npu")], known) == []
    for one in (row("add", "device"), row("add", "torch_npu"), row("qr", "twin"), row("qr", "torch_npu", "twin")):
        assert worse([row("add"), one], known) == [one]


@pytest.mark.parametrize("told", [worse, fewer])
@pytest.mark.parametrize("before", [0, 1, 2])
def test_what_a_rounding_fails_may_be_more_or_less(told: Callable[..., list[tally.Row]], before: int) -> None:
    def rounded(times: int, op: str, dtype: str) -> tally.Row:
        return counted(op, dtype, *[{"strided": CLOSE}] * times, *[{}] * (2 - times))

    names = [(NORM, NORMED), ("matmul", "float32"), ("matmul", NORMED)]
    known = {name: rounded(before, *name) for name in names}
    passing = [("add", "float32"), ("add", NORMED), (NORM, "float32"), ("matmul", "int64")]
    known |= {name: counted(*name, {}, {}) for name in passing}
    for now in range(3):
        assert told([rounded(now, *name) for name in names], known) == []
    others = [
        counted(NORM, NORMED, {"forward": "float32 instead of float16"}, {}),
        counted(NORM, NORMED, {"forward": CLOSE}, {"forward": "float32 instead of float16"}),
        counted(NORM, NORMED, {"forward": CLOSE, "strided": "float32 instead of float16"}, {}),
        counted("matmul", "float32", {"backward": CLOSE}, {}),
        counted("matmul", "float32", {"strided": CLOSE, "backward": CLOSE}, {}),
        counted("matmul", "float32", {"strided": CLOSE}, {"forward": EMPTY}),
        *(counted(*name, {"forward": CLOSE}, {}) for name in passing),  # no rounding is known there
    ]
    for one in others:
        assert told([one], known) == [one]


def test_a_sample_is_a_rounding_where_it_fails_by_nothing_else() -> None:
    for failed, cause in (
        ({"forward": CLOSE, "strided": CLOSE}, reasons.ROUNDING),
        ({"strided": CLOSE, "backward": CLOSE}, reasons.WHEEL),  # a gradient is none
        ({"strided": CLOSE, "backward": EMPTY}, reasons.WHEEL),
        ({"strided": CLOSE, "backward": "new"}, reasons.TWIN),
    ):
        assert counted("matmul", "float32", failed).causes == {cause: 1}


def test_of_a_cause_that_is_no_rounding_no_more_samples_may_fail() -> None:
    refused = {"forward": REFUSED}
    known = {(op, "int64"): counted(op, "int64", refused, {}) for op in ("mm", "bmm")}
    same, more = known["mm", "int64"], counted("bmm", "int64", refused, refused)
    assert fewer([same, more, counted("mm", "int64", {}, {})], known) == [more]
    assert fewer([counted("mm", "int64", {})], known) != []


Measured = dict[str, dict[str, list[float]]]  # operator and data type -> check -> distances, number of samples


def unmeasured(row: tally.Row, measured: Measured) -> list[str]:
    """The checks that may be called roundings, and of which fewer samples were measured than may be one."""
    if f"{row.op} {row.dtype}" not in measured:
        return list(tally.CHECKS)
    found = measured[f"{row.op} {row.dtype}"]
    others = row.shapes_only + sum(row.causes.values()) - row.causes[reasons.ROUNDING]

    def covered(check: str) -> bool:
        may_be = reasons.explain(row.op, row.dtype, CLOSE, check)[0] == reasons.ROUNDING and row.tested[check]
        return not may_be or (check in found and found[check][2] >= max(1, row.tested[check] - others))

    return [check for check in tally.CHECKS if not covered(check)]


def test_an_unmeasured_check_is_named() -> None:
    one = counted(NORM, NORMED, {"strided": CLOSE}, {})
    full = {"forward": [1, 1, 2], "backward": [1, 1, 2], "strided": [1, 1, 2]}
    name = f"{NORM} {NORMED}"
    assert unmeasured(one, {name: full}) == []
    assert unmeasured(one, {f"{NORM} bfloat16": full}) == list(tally.CHECKS)
    assert unmeasured(one, {name: full | {"strided": [1, 1, 1]}}) == ["strided"]
    assert unmeasured(one, {name: {check: full[check] for check in ("forward", "strided")}}) == ["backward"]


@pytest.mark.parametrize("name", ["conformance", "conformance-aclnn"])
def test_roundings_are_measured(program: Any, name: str) -> None:
    """A reason that is held to float64 is a rounding, and no other; so is each sample that is counted as one."""
    listed = [rule for rule in reasons.RULES if rule.cause == reasons.ROUNDING]
    assert listed and listed == [rule for rule in reasons.RULES if "programs/rounding.py" in rule.text]
    assert {rule.error for rule in listed} == {"not close"}
    measured = program.kept("rounding", mode="aclnn")
    rows = [row for row in tally.read_csv(DOCS / f"{name}.csv") if row.causes[reasons.ROUNDING]]
    assert {row.op: missing for row in rows if (missing := unmeasured(row, measured))} == {}
    assert name == "conformance" or "matmul" in {row.op for row in rows} & set(recommender.OPERATORS)


def rows_of(results: Path) -> list[str]:
    return sorted(json.loads(line)["row"] for line in results.read_text().splitlines()[1:])


def test_nothing_fails_that_passes_in_the_committed_table(
    sample: Path, committed: dict[tuple[str, str], tally.Row]
) -> None:
    rows = [tally.from_json(row) for row in rows_of(sample)]
    assert sum(row.samples for row in rows) > 130
    assert worse(rows, committed) == [], f"part {PART}: run this test with GRSTACK_PART={PART}"


def test_the_parts_are_all_operators() -> None:
    infos = cases.database()
    parts = [cases.quick(infos, cases.DTYPES, PARTS, part) for part in range(PARTS)]
    named = [{case.op for case in part} for part in parts]
    every = {case.op for case in cases.quick(infos, cases.DTYPES)}
    assert set().union(*named) == every and sum(map(len, named)) == len(every)


def test_aclnn_gives_no_less_than_its_committed_table_says(twin_lib64: str, tmp_path: Path) -> None:
    """All samples of a part of the recommenders' operators."""
    committed = {(row.op, row.dtype): row for row in tally.read_csv(DOCS / "conformance-aclnn.csv")}
    names = sorted(recommender.OPERATORS)[PART::PARTS]
    done = conformance(twin_lib64, "--aten", "aclnn", "--ops", *names, "--output", str(tmp_path))
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: below 95 % of so few
    rows = [tally.from_json(row) for row in rows_of(tmp_path / "conformance.jsonl")]
    assert {row.op for row in rows} == set(names)
    assert fewer(rows, committed) == [], f"part {PART}: run this test with GRSTACK_PART={PART}"


def test_no_operator_of_aclnn_fails_that_passes_in_the_committed_table(twin_lib64: str, tmp_path: Path) -> None:
    """Two samples at two data types of a part of all operators."""
    committed = {(row.op, row.dtype): row for row in tally.read_csv(DOCS / "conformance-aclnn.csv")}
    done = conformance(twin_lib64, "--aten", "aclnn", *SAMPLE, "--output", str(tmp_path))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    rows = [tally.from_json(row) for row in rows_of(tmp_path / "conformance.jsonl")]
    assert sum(row.samples for row in rows) > 130
    assert worse(rows, committed) == [], f"part {PART}: run this test with GRSTACK_PART={PART}"


def test_a_run_goes_on_where_it_was_cut_off(twin_lib64: str, sample: Path, tmp_path: Path) -> None:
    lines = sample.read_text().splitlines(keepends=True)
    results = tmp_path / sample.name
    results.write_text("".join(lines[:-3]) + lines[-3][:40])  # the machine stopped in the middle of a line
    done = conformance(twin_lib64, *SAMPLE, "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(lines) - 4} of {len(lines) - 1} cases are there from an earlier run" in done.stdout
    assert rows_of(results) == rows_of(sample)


def test_too_few_are_an_exit_code_or_the_page_says_it(twin_lib64: str, tmp_path: Path) -> None:
    """torch_npu makes float32 where float64 is asked for: no sample passes."""
    chosen = ("--ops", "double", "--output", str(tmp_path))
    assert conformance(twin_lib64, *chosen).returncode == 1
    done = conformance(twin_lib64, *chosen, "--docs", str(tmp_path / "docs"))
    assert done.returncode == 0 and "5 of 5 cases are there from an earlier run" in done.stdout, done.stderr
    assert "0 of 25 samples" in (tmp_path / "docs/conformance.md").read_text().replace("*", "")


def test_an_unknown_operator_is_refused(twin_lib64: str) -> None:
    done = conformance(twin_lib64, "--ops", "no_such_operator")
    assert done.returncode == 2
    assert "no_such_operator" in done.stderr


@pytest.fixture(scope="module")
def faults(program: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return program("conformance_faults", str(tmp_path_factory.mktemp("faults")))


@pytest.mark.parametrize(
    ("name", "samples", "passed", "error"),
    [
        ("right", 4, 4, None),
        ("wrong", 4, 1, "not close"),  # 0 * 3 is right
        ("raises", 4, 3, "IndexError"),
        ("crashes once", 4, 3, "SIGABRT"),
        ("crashes always", 4, 0, "SIGABRT"),
        ("exits", 4, 3, "exit code 5"),
        ("fails on the device", 4, 3, "Inner error"),
        ("hangs", 4, 3, "no answer for 5 s"),
        ("random", 4, 4, None),
        ("on the CPU", 4, 0, "device cpu instead of npu"),
        ("CPU refuses", 0, 0, None),
        ("no samples", 0, 0, None),
    ],
)
def test_a_fault_costs_its_own_samples(
    faults: dict[str, dict[str, Any]], name: str, samples: int, passed: int, error: str | None
) -> None:
    row = faults[name]
    assert (row["samples"], row["passed"]) == (samples, passed)
    assert (error is None) == (not row["errors"])
    assert error is None or error in next(iter(row["errors"]))


def test_special_cases_are_counted(faults: dict[str, dict[str, Any]]) -> None:
    assert faults["random"]["shapes_only"] == 4
    assert faults["CPU refuses"]["refused_by_cpu"] == 4
    assert "none here" in faults["no samples"]["no_samples"]


@pytest.mark.parametrize("name", ["conformance", "conformance-aclnn"])
def test_the_page_is_what_the_tables_give(name: str) -> None:
    about = json.loads((DOCS / f"{name}.json").read_text())
    assert report.name_of(about) == name
    assert report.page(tally.read_csv(DOCS / f"{name}.csv"), about) == (DOCS / f"{name}.md").read_text()


def test_the_recommenders_operators_go_through_aclnn() -> None:
    rows = [row for row in tally.read_csv(DOCS / "conformance-aclnn.csv") if row.op in recommender.OPERATORS]
    assert {row.op for row in rows} == set(recommender.OPERATORS)
    assert report.share(rows) >= 0.95  # what is missing are mainly refusals of torch_npu's own
    assert len(json.loads((DOCS / "conformance-aclnn.json").read_text())["aclnn_functions"]) >= 170


def test_what_fails_with_aclnn_has_a_cause() -> None:
    rows = tally.read_csv(DOCS / "conformance-aclnn.csv")
    assert sum(row.samples for row in rows) > 60000
    assert all(sum(row.causes.values()) == row.samples - row.passed for row in rows)
    assert report.by_cause(rows)["twin"] <= 0.01 * sum(row.samples for row in rows)


def test_aclnn_forms_that_torch_npu_calls(twin_lib64: str, tmp_path: Path) -> None:
    """Without these functions (in place, of losses, of pooled embeddings) torch_npu falls back to legacy operators."""
    chosen = ("--aten", "aclnn", "--ops", *IN_PLACE, "--dtypes", "float32", "--output", str(tmp_path))
    done = conformance(twin_lib64, *chosen)
    assert f" 0 of {len(IN_PLACE)} cases have failures" in done.stdout, done.stdout + done.stderr
    called = {
        name for line in (tmp_path / "conformance.jsonl").read_text().splitlines()[1:] for name in functions(line)
    }
    assert called >= {"aclnnInplaceEqTensor", "aclnnInplaceTrunc", "aclnnGluBackward", "aclnnEmbeddingBag"}


def test_norms_of_any_order_run(twin_lib64: str, tmp_path: Path) -> None:
    """torch_npu composes those of other orders than 0, 1, 2 and infinity of legacy operators."""
    chosen = ("--aten", "aclnn", "--ops", "norm", "linalg.vector_norm", "--dtypes", "float16", "float32")
    done = conformance(twin_lib64, *chosen, "--output", str(tmp_path))
    assert " 0 of 4 cases have failures" in done.stdout, done.stdout + done.stderr


def functions(line: str) -> list[str]:
    names: list[str] = json.loads(line)["functions"]
    return names


def test_enough_of_the_full_run_passes(committed: dict[tuple[str, str], tally.Row]) -> None:
    assert len({op for op, _ in committed}) > 600
    assert {dtype for _, dtype in committed} == {"float32", "float16", "bfloat16", "int64", "bool"}
    assert report.share(committed.values()) >= 0.95
    page = (DOCS / "conformance.md").read_text()
    failing = [row for row in committed.values() if row.passed < row.samples]
    assert all(re.search(rf"\| `{re.escape(row.op)}` \|.*\b{row.dtype}\b", page) for row in failing)
