import dataclasses
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from smoke_tests import __main__, report, runner
from smoke_tests.check import Chart, Check, CheckFailed, CheckSkipped, Context, Curve, Outcome
from smoke_tests.registry import CHECKS
from smoke_tests.runner import Result

GOOD = Outcome("fine", ["a <detail>"], {"loss": 0.5}, [Chart("Loss", [Curve("cpu", [[1, 2.0], [2, 1.0]])])])
MANIFEST = {"target": "npu", "platform": "twin", "emulated": True, "python": "3.11", "arch": "x86_64"}


def context(tmp_path: Path) -> Context:
    return Context(tmp_path, tmp_path, {"packages": []}, MANIFEST)


def worked(tmp_path, run):
    file = tmp_path / "r.json"
    code = runner.work(Check("c", "claim", run), context(tmp_path), file)
    return code, *runner.judge(code, file, ["tail"], 1.0)


def test_pass_failure_and_exception_survive_the_way_through_json(tmp_path):
    code, passed, outcome = worked(tmp_path, lambda _: GOOD)
    assert (code, passed) == (0, True)
    assert json.loads(json.dumps(dataclasses.asdict(outcome))) == json.loads(json.dumps(dataclasses.asdict(GOOD)))

    def fails(_):
        raise CheckFailed("two differ", ["a", "b"])

    assert worked(tmp_path, fails) == (1, False, Outcome("two differ", ["a", "b"]))
    code, passed, outcome = worked(tmp_path, lambda _: 1 / 0)
    assert (code, passed, outcome.summary) == (1, False, "ZeroDivisionError: division by zero")


def test_what_a_machine_lacks_is_skipped_with_the_reason(tmp_path):
    def lacks(_):
        raise CheckSkipped("2 NPUs are needed, 1 given")

    code, passed, outcome = worked(tmp_path, lacks)
    assert (code, passed, outcome.skipped) == (0, False, True)
    result = Result("c", "claim", passed, 1.0, outcome, outcome.skipped)
    assert "skip  c" in report.text_table([result]) and "2 NPUs are needed, 1 given" in report.text_table([result])
    assert report.json_report([result], MANIFEST, 1.0)["passed"]
    passed, outcome = runner.judge(-6, tmp_path / "r.json", ["tail"], 1.0)  # it crashed as it ended
    assert not passed and not outcome.skipped and "signal SIGABRT" in outcome.summary


def test_crash_without_or_after_a_result_is_a_failure(tmp_path):
    file = tmp_path / "r.json"
    assert runner.judge(-11, file, ["last words"], 1.0) == (
        False,
        Outcome("the process ended with signal SIGSEGV before it had a result", ["last words"]),
    )
    runner.work(Check("c", "claim", lambda _: GOOD), context(tmp_path), file)
    passed, outcome = runner.judge(-6, file, ["tail"], 1.0)
    assert not passed and "signal SIGABRT" in outcome.summary
    assert not runner.judge(None, file, [], 3.0)[0]


def test_a_check_that_hangs_is_ended(tmp_path, monkeypatch):
    script = tmp_path / "hang"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'import time; print(1, flush=True); time.sleep(600)'\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    result = runner.run_check(Check("c", "claim", lambda _: GOOD, time_limit=1.0), [], tmp_path, threading.Event())
    assert not result.passed and result.outcome.summary == "no end after 1 s" and result.seconds < 30


def test_reports(tmp_path):
    results = [Result("good", "holds", True, 1.0, GOOD), Result("bad", "breaks", False, 2.0, Outcome("no", ["why"]))]
    text = report.text_table(results)
    assert "pass  good" in text and "FAIL  bad" in text and "why" in text and "a <detail>" not in text
    data = json.loads(json.dumps(report.json_report(results, MANIFEST, 2.5)))
    assert data["passed"] is False and data["emulated"] is True and len(data["checks"]) == 2 and data["seconds"] == 2.5
    results[0] = dataclasses.replace(results[0], outcome=Outcome(**data["checks"][0]["outcome"]))
    page = report.html_report(results, MANIFEST)
    assert "1 of 2 checks passed" in page and "emulated" in page and "<polyline" in page and "a &lt;detail&gt;" in page


def test_command_line_refuses_what_it_does_not_know(tmp_path, capsys):
    lock, manifest = tmp_path / "lock.json", tmp_path / "manifest.json"
    lock.write_text('{"packages": []}')
    manifest.write_text(json.dumps(MANIFEST))
    base = ["--out", str(tmp_path / "o"), "--data-dir", str(tmp_path), "--lock", str(lock), "--manifest", str(manifest)]
    names = ", ".join(check.name for check in CHECKS if MANIFEST["target"] in check.targets)
    for extra, message in ((["--only", "speed"], f"valid: {names}\n"), (["--lock", "none"], "none: ")):
        with pytest.raises(SystemExit) as caught:
            __main__.main([*base, *extra])
        assert caught.value.code == 2 and message in capsys.readouterr().err
    manifest.write_text('{"target": "npu"}')
    with pytest.raises(SystemExit):
        __main__.main(base)
    assert "lacks platform, python, arch" in capsys.readouterr().err


def test_whole_command_reports_a_failure(tmp_path, capsys):
    """versions cannot hold with an empty lock: the command must say so by its exit code and its files."""
    lock, manifest = tmp_path / "lock.json", tmp_path / "manifest.json"
    lock.write_text('{"packages": []}')
    manifest.write_text(json.dumps(MANIFEST))
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--data-dir", str(tmp_path), "--lock", str(lock), "--manifest", str(manifest)]
    assert __main__.main([*arguments, "--only", "versions"]) == 1
    assert "\n    versions: FAIL, " in capsys.readouterr().out  # as soon as it is known
    data = json.loads((out / "smoke-report.json").read_text())
    details = data["checks"][0]["outcome"]["details"]
    assert not data["passed"] and any("installed but not locked" in line for line in details)
    assert sorted(os.listdir(out)) == ["smoke-report.html", "smoke-report.json"]
