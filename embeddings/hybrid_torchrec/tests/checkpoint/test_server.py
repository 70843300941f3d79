"""The reference server in a process of its own: it answers while it follows, and comes back after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from children import without_devices
from hybrid_torchrec.checkpoint import TableShard
from hybrid_torchrec.serving import Consumer, Publisher
from hybrid_torchrec.serving.server import make_server
from hybrid_torchrec.table import HashTable
from prometheus_client.parser import text_string_to_metric_families
from small_tables import all_rows, make_table, train


def call(port: int, path: str, content: object = None) -> tuple[int, object]:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read()) if path != "/metrics" else answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def until(met: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, "did not come about"
        time.sleep(0.02)


@contextmanager
def served(consumer: Consumer, **options: object) -> Iterator[int]:
    server = make_server(consumer, "127.0.0.1", 0, **options)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def assert_answers(port: int, table: HashTable) -> None:
    rows = all_rows(table)
    code, answer = call(port, "/lookup", {"table": "user", "ids": [*rows.ids.tolist(), 987654321]})
    assert code == 200
    assert answer["found"] == [True] * len(rows) + [False]
    assert torch.equal(torch.tensor(answer["weights"][:-1]), rows.weights)
    default = table.lookup(torch.zeros(1, dtype=torch.int64))[0]
    assert torch.equal(torch.tensor(answer["weights"][-1]), default)


def test_answers_and_refusals(tmp_path: Path):
    table = make_table()
    train(table, 0)
    consumer = Consumer(tmp_path, name="c")
    with served(consumer) as port:
        assert call(port, "/lookup", {"table": "user", "ids": [1]})[0] == 503
        publisher = Publisher(tmp_path, {"user": TableShard(table)})
        train(table, 1)
        publisher.publish(1)
        while consumer.poll():
            pass
        assert_answers(port, table)
        code, answer = call(port, "/lookup", {"table": "item", "ids": [1]})
        assert code == 404 and "there are: user" in answer["error"]
        assert call(port, "/lookup", {"table": "user", "ids": ["x"]})[0] == 400
        assert call(port, "/lookup", {"table": "user", "ids": [2**64]})[0] == 400
        assert call(port, "/elsewhere")[0] == 404
        assert call(port, "/lookup", {"table": "user", "ids": []})[1] == {"weights": [], "found": [], "dim": 6}
        status = call(port, "/status")[1]
        assert status["tables"] == {"user": len(table)} and status["shards"][0]["step"] == 1
        families = {family.name for family in text_string_to_metric_families(call(port, "/metrics")[1])}
        assert {"hybrid_torchrec_lookups", "hybrid_torchrec_record_latency_seconds"} <= families


def test_lookups_while_records_are_applied(tmp_path: Path):
    """Every answer is one of the states that a row had, never a mixture, and never an older one than before."""
    table = make_table("sgd")
    ids = torch.arange(500)
    slots = table.assign(ids, train=True)
    table.update(slots, table.lookup(slots) / 0.1)  # lr 0.1: every row becomes 0
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    consumer = Consumer(tmp_path, name="c", interval=0.0)
    seen: list[torch.Tensor] = []
    with consumer:
        assert consumer.wait_ready(60)
        for step in range(1, 30):
            table.update(slots, torch.full((500, 6), -10.0))  # every element becomes `step`
            publisher.publish(step)
            seen += [consumer.lookup("user", ids)[0] for _ in range(3)]
        until(lambda: consumer.status()["shards"][0]["sequence"] == 29)
        seen.append(consumer.lookup("user", ids)[0])
    before = torch.full((500,), -1.0)
    for rows in seen:
        assert torch.allclose(rows, rows[:, :1].expand_as(rows), atol=1e-3)
        assert bool((rows[:, 0] >= before - 1e-3).all())
        before = rows[:, 0]
    assert torch.allclose(before, torch.full((500,), 29.0), atol=1e-3)


def start(stream: Path, *options: str, **env: str) -> tuple[subprocess.Popen[str], int]:
    argv = [sys.executable, "-m", "hybrid_torchrec.serving.server", "--stream", str(stream), "--port", "0", *options]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**without_devices(), **env})
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("serving on port "), line
    return process, int(line.split()[-1])


def has_applied(port: int, sequence: int) -> bool:
    shards = call(port, "/status")[1]["shards"]
    return bool(shards) and shards[0]["sequence"] == sequence


def test_a_server_that_is_killed_comes_back(tmp_path: Path):
    table = make_table()
    train(table, 0)
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    for life in range(2):
        process, port = start(tmp_path)
        try:
            for step in range(2):
                train(table, 10 * life + step)
                sequence = publisher.publish(step).sequence
                until(partial(has_applied, port, sequence))
                assert_answers(port, table)
        finally:
            if life == 0:
                process.kill()
            else:
                process.terminate()
            code = process.wait(60)
    assert code == 0
