"""Clients that are silent, slow, many, greedy or not invited: the server gets rid of them and answers the others."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch
from hybrid_torchrec.checkpoint import CheckpointError, TableShard
from hybrid_torchrec.serving import Client, Consumer, Publisher, connections
from hybrid_torchrec.serving.connections import Limits
from hybrid_torchrec.serving.server import main
from hybrid_torchrec.serving.token import VARIABLE, read_token
from small_tables import DIM, all_rows, make_table, train
from test_server import call, has_applied, served, start, until

SECONDS = 0.5  # that a client gets here
PATIENCE = 30.0  # only a test that fails waits as long
TOKEN = "a-token-of-letters-0123456789"
LOOKUP = {"table": "user", "ids": [1, 2]}


@pytest.fixture
def consumer(tmp_path: Path) -> Consumer:
    table = make_table()
    train(table, 0)
    Publisher(tmp_path, {"user": TableShard(table)})
    consumer = Consumer(tmp_path, name="c")
    while consumer.poll():
        pass
    return consumer


def limits(**changed: float) -> Limits:
    return Limits(**{"connections": 2, "seconds": SECONDS, **changed})


@contextmanager
def connected(port: int, sent: bytes = b"") -> Iterator[socket.socket]:
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as client:
        client.sendall(sent)
        yield client


def everything(client: socket.socket) -> bytes:
    """What comes until the server ends the connection; TimeoutError if it does not."""
    parts = []
    try:
        while part := client.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def post(ids: str, *, more: str = "", length: int | str | None = None) -> bytes:
    body = f'{{"table": "user", "ids": {ids}}}'
    size = len(body) if length is None else length
    return f"POST /lookup HTTP/1.1\r\nContent-Length: {size}\r\n{more}\r\n{body}".encode()


def code_of(answer: bytes) -> int:
    return int(answer.split(maxsplit=2)[1])


@pytest.mark.parametrize("sent", [b"", b"GET /sta", post("[1]", length=99), b"GET /status HTTP/1.1\r\n\r\n"])
def test_a_silent_client_is_let_go(consumer: Consumer, sent: bytes) -> None:
    """Before, within, and after a request."""
    with served(consumer, limits=limits(connections=1)) as port, connected(port, sent) as silent:
        begin = time.monotonic()
        answer = everything(silent)
        assert time.monotonic() - begin >= 0.9 * SECONDS
        assert (code_of(answer) if answer else 0) == {b"": 0, b"GET /sta": 0}.get(sent, 200 if b"GET" in sent else 408)
        until(lambda: _answered(port), PATIENCE)  # its place is free


@pytest.mark.parametrize("sent", [b"GET /status HTTP/1.1\r\nX: ", post("[1]", length=4096)])
def test_a_client_that_drips_is_let_go(consumer: Consumer, sent: bytes) -> None:
    """Each byte comes long before the time is up."""
    with served(consumer, limits=limits()) as port, connected(port, sent) as slow:
        begin = time.monotonic()
        try:
            while time.monotonic() - begin < PATIENCE:
                slow.sendall(b"1")
                time.sleep(SECONDS / 10)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert SECONDS <= time.monotonic() - begin < PATIENCE


def test_a_client_that_does_not_take_its_answer_is_let_go(consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SLOWEST", 1 << 30)
    ids = json.dumps(list(range((1 << 20) // DIM)))
    big = limits(ids=1 << 18, connections=1, seconds=3 * SECONDS)
    with served(consumer, limits=big) as port, connected(port) as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.sendall(post(ids))
        assert greedy.recv(12) == b"HTTP/1.1 200"
        assert not _answered(port)  # or it was not slow at all
        until(lambda: _answered(port), PATIENCE)


def _answered(port: int) -> bool:
    try:
        return call(port, "/status")[0] == 200
    except (OSError, ValueError):  # refused: all connections are taken
        return False


def test_one_client_too_many_is_told(consumer: Consumer) -> None:
    with served(consumer, limits=limits(seconds=PATIENCE)) as port, connected(port), connected(port):
        with connected(port) as third:
            answer = everything(third)
            assert code_of(answer) == 503 and b"Retry-After: 1" in answer and b"too many connections" in answer
        with pytest.raises(CheckpointError, match="too many connections"):
            _until_told(port)
    with served(consumer, limits=limits()) as port:
        for _ in range(8):  # one after the other
            with Client(f"http://127.0.0.1:{port}") as client:
                client.status()
                client._connection.sock.shutdown(socket.SHUT_RDWR)
            until(lambda: _answered(port), PATIENCE)


def _until_told(port: int) -> None:
    """The system may take the answer back where the client was still sending."""
    for _ in range(100):
        try:
            Client(f"http://127.0.0.1:{port}").status()
        except ConnectionError:
            continue
    raise AssertionError("was never told")


REFUSED = {
    "a head too long": (
        b"GET /status HTTP/1.1\r\n" + b"X: 123456789\r\n" * 90 + b"Y: " + b"y" * 50000 + b"\r\n\r\n",
        431,
    ),
    "headers too many": (b"GET /status HTTP/1.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n", 431),
    "a negative length": (post("[1]", length=-5), 400),
    "no length": (post("[1]", length="many"), 400),
    "a length beyond numbers": (post("[1]", length="9" * 5000), 413),
    "a body too large": (post("[1]", length=1 << 40), 413),
    "chunks": (post("[1]", more="Transfer-Encoding: chunked\r\n"), 411),
    "two lengths": (post("[1]", more="Content-Length: 3\r\n"), 411),
    "fractions": (post("[1.5]"), 400),
    "truth": (post("[true]"), 400),
    "lists": (post("[[1, 2]]"), 400),
    "one id": (post("1"), 400),
    "no list of ids": (b"POST /lookup HTTP/1.1\r\nContent-Length: 17\r\n\r\n" + b'{"table": "user"}', 400),
    "no object": (b"POST /lookup HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", 400),
    "too deep": (b"POST /lookup HTTP/1.1\r\nContent-Length: 20000\r\n\r\n" + b"[" * 20000, 400),
    "ids too many": (post(json.dumps([0] * 2001)), 413),
    "values too many": (post(json.dumps([0] * 200)), 413),
}


@pytest.mark.parametrize("what", REFUSED)
def test_requests_that_are_refused(consumer: Consumer, what: str) -> None:
    sent, code = REFUSED[what]
    with served(consumer, limits=limits(ids=2000, values=199 * DIM)) as port:
        with connected(port, sent) as client:
            answer = everything(client)
            assert code_of(answer) == code, answer
            assert answer.count(b"HTTP/1.1") == 1  # what was refused is not read as the next request
        until(lambda: _answered(port), PATIENCE)
    if what == "values too many":
        assert b"at most 199 ids of 'user' at once" in answer


def test_without_the_token_nothing_is_told(consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.tensor([1, 2, 3])
    with served(consumer, token=TOKEN) as port:
        url = f"http://127.0.0.1:{port}"
        for path, content in (("/lookup", LOOKUP), ("/status", None), ("/metrics", None), ("/nothing", None)):
            for given in (
                "",
                "Authorization: Bearer \r\n",
                f"Authorization: {TOKEN}\r\n",
                f"Authorization: Bearer {TOKEN}x\r\n",
            ):
                body = json.dumps(content).encode() if content else b""
                method = "POST" if content else "GET"
                head = f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n{given}\r\n".encode()
                with connected(port, head + body) as client:
                    answer = everything(client)
                assert code_of(answer) == 401 and b"WWW-Authenticate: Bearer" in answer, (path, given)
                assert b"asks for its token" in answer and b"weights" not in answer
        with pytest.raises(PermissionError, match=f"asks for its token.*none was sent.*{VARIABLE}"):
            Client(url).lookup("user", ids)
        with pytest.raises(PermissionError, match="asks for its token.*the client's token is another"):
            Client(url, token=TOKEN[::-1]).lookup("user", ids)
        expected = consumer.lookup("user", ids)
        assert all(map(torch.equal, Client(url, token=TOKEN).lookup("user", ids), expected))
        monkeypatch.setenv(VARIABLE, TOKEN)
        assert all(map(torch.equal, Client(url).lookup("user", ids), expected))


def test_where_tokens_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    file = tmp_path / "token"
    assert read_token() is None
    with pytest.raises(ValueError, match=f"{file}: cannot read the token.*umask 077"):
        read_token(file)
    file.write_text(TOKEN + "\n")
    file.chmod(0o644)
    with pytest.raises(ValueError, match=f"every user of this machine may open it; chmod o= {file}"):
        read_token(file)
    file.chmod(0o600)
    assert read_token(file) == TOKEN
    for text in ("", "short", "with spaces in the middle", "ünïcode-of-many-letters"):
        file.write_text(text)
        with pytest.raises(ValueError, match="not a token: 16 or more"):
            read_token(file)
        monkeypatch.setenv(VARIABLE, text)  # set but empty is not: none
        with pytest.raises(ValueError, match="not a token: 16 or more"):
            read_token()
        monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv(VARIABLE, TOKEN)
    with pytest.raises(ValueError, match="give one of them"):
        read_token(file)


def test_the_command_takes_a_token_but_not_from_its_command_line(tmp_path: Path, capsys) -> None:
    table = make_table()
    train(table, 0)
    publisher = Publisher(tmp_path, {"user": TableShard(table)})
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    ids = all_rows(table).ids
    for options, env in ((["--token-file", str(file)], {}), ([], {VARIABLE: TOKEN})):
        process, port = start(tmp_path, *options, **env)
        try:
            with Client(f"http://127.0.0.1:{port}", token=TOKEN) as client:
                until(lambda: bool(client.status()["shards"]))  # noqa: B023 (used in this iteration)
                assert torch.equal(client.lookup("user", ids)[0], all_rows(table).weights)
            assert call(port, "/status")[0] == 401
            with connected(port):  # a client that says nothing does not keep it from ending
                process.terminate()
                assert process.wait(60) == 0
        finally:
            process.kill()
    process, port = start(tmp_path)
    try:
        until(lambda: has_applied(port, publisher.sequence))
    finally:
        process.kill()
    for wrong in (["--token", TOKEN], ["--token-file", str(tmp_path / "none")], ["--seconds", "0"]):
        with pytest.raises(SystemExit, match="^2$"):
            main(["--stream", str(tmp_path), *wrong])
        told = capsys.readouterr().err
        assert "token" in told or "seconds" in told, told


def test_the_client_answers_as_a_consumer_does(consumer: Consumer) -> None:
    ids = torch.tensor([0, 5, -1, 2**63 - 1, 987654321])
    with served(consumer, limits=limits()) as port:
        client = Client(f"http://127.0.0.1:{port}")
        for some in (ids, ids[:0], ids[:1]):
            assert all(map(torch.equal, client.lookup("user", some), consumer.lookup("user", some)))
        time.sleep(2 * SECONDS)  # the server has ended the connection meanwhile
        assert client.status()["ready"]
        with pytest.raises(KeyError, match="no table 'item'; there are: user"):
            client.lookup("item", ids)
        with pytest.raises(ValueError, match="ids must be int64"):
            client.lookup("user", ids.int())
        client.status()
    client._connection.close()
    with pytest.raises(ConnectionError):
        client.status()
    with served(consumer, limits=limits(seconds=PATIENCE)) as port:
        client = Client(f"http://127.0.0.1:{port}")
        with pytest.raises(ValueError, match="at most"):
            client.lookup("user", torch.zeros(1 << 17, dtype=torch.int64))
        client.status()
    with served(Consumer(Path("/nowhere"), name="c")) as port, pytest.raises(CheckpointError, match="no base yet"):
        Client(f"http://127.0.0.1:{port}").lookup("user", ids)
    with pytest.raises(ValueError, match="not of the form http://HOST:PORT"):
        Client("https://127.0.0.1:1")
