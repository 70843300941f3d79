import dataclasses
import os
import sys
import time

import pytest

from smoke_tests import side_by_side
from smoke_tests.check import Check, Context, Outcome

MANIFEST = {"target": "npu", "platform": "twin", "emulated": True, "python": "3.11", "arch": "x86_64"}


def check(name: str) -> Check:
    return Check(name, "claim", lambda _: Outcome("fine"), time_limit=30.0)


@pytest.fixture
def context(tmp_path):
    return Context(tmp_path, tmp_path, {"packages": []}, MANIFEST)


@pytest.fixture
def child(tmp_path, monkeypatch):
    """What stands in for the process of a check: a shell script, which knows the check's name as NAME."""

    def write(lines: str) -> None:
        script = tmp_path / "python"
        script.write_text(f'#!/bin/sh\nwhile [ "$1" != --worker ]; do shift; done; NAME=$2\ncd {tmp_path}\n{lines}\n')
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))

    return write


def test_two_checks_run_beside_each_other_and_results_keep_their_order(context, child, capsys):
    other = '[ "$NAME" = a ] && other=b || other=a'
    child(
        f"touch $NAME.there; {other}; until [ -e $other.there ]; do sleep 0.05; done; [ $NAME = b ] || sleep 1; exit 3"
    )
    results = side_by_side.run([check("a"), check("b")], context, [], at_once=2)
    assert [result.check for result in results] == ["a", "b"]
    assert all("exit code 3" in result.outcome.summary for result in results)  # neither waited for the other in vain
    said = capsys.readouterr().out
    assert said.index("    b: FAIL, ") < said.index("    a: FAIL, ")  # each as soon as it is known


def test_one_at_a_time_waits_for_the_one_before(context, child):
    child("[ -e running ] && exit 4; touch running; sleep 0.3; rm running; exit 3")
    results = side_by_side.run([check("a"), check("b"), check("c")], context, [], at_once=1)
    assert all("exit code 3" in result.outcome.summary for result in results)


def test_an_interruption_ends_what_runs_and_begins_nothing(context, child, monkeypatch, tmp_path):
    child("echo $$ >> pids; exec sleep 600")

    def interrupted(_):
        while not (tmp_path / "pids").exists() or len((tmp_path / "pids").read_text().split()) < 2:
            time.sleep(0.05)
        raise KeyboardInterrupt

    monkeypatch.setattr(side_by_side, "as_completed", interrupted)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        side_by_side.run([check("a"), check("b"), check("c")], context, [], at_once=2)
    assert time.monotonic() - begin < 20
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_a_device_of_its_own_takes_one_check_at_a_time(context, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert side_by_side.at_once(context) == 2
    assert (
        side_by_side.at_once(dataclasses.replace(context, manifest=MANIFEST | {"target": "cpu", "emulated": False}))
        == 2
    )
    assert side_by_side.at_once(dataclasses.replace(context, manifest=MANIFEST | {"emulated": False})) == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert side_by_side.at_once(context) == 1
