"""A reference server: `python -m hybrid_torchrec.serving.server --stream FOLDER --port 8080`.

POST /lookup   {"table": "user", "ids": [1, 2]} -> {"weights": [[...], [...]], "found": [true, false], "dim": 8}
GET  /status   what is served, and how fresh
GET  /metrics  for Prometheus

Whoever reaches the port reads every table: on 127.0.0.1 every user and program of the machine, and nothing is
encrypted. With `--token-file FILE`, or HYBRID_TORCHREC_TOKEN in the environment, every request needs the header
`Authorization: Bearer <token>` (serving/client.py sends it). The stream's folder is as open as its permissions are.

A client gets `--seconds` for a request to come and as many for its answer to be taken; there are `--connections` of
them at once, and `--ids` in a request.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from typing import Any

import torch
from torch import Tensor

from hybrid_torchrec.checkpoint.errors import CheckpointError
from hybrid_torchrec.metrics import Metrics
from hybrid_torchrec.serving.connections import BoundedHandler, BoundedServer, Limits
from hybrid_torchrec.serving.consumer import Consumer
from hybrid_torchrec.serving.token import VARIABLE, agrees, read_token


class TooMany(Exception):
    """More ids, or more values in their rows, than one answer has."""


def make_server(
    consumer: Consumer, host: str, port: int, *, token: str | None = None, limits: Limits | None = None
) -> BoundedServer:
    """Port 0 takes a free one: see server_address. `token`: what clients must show; None lets everybody in."""
    bounds = limits if limits is not None else Limits()

    class Handler(BoundedHandler):
        def do_GET(self) -> None:
            if not self._may_ask() or self.body() is None:
                return
            if self.path == "/status":
                self._answer(200, consumer.status())
            elif self.path == "/metrics":
                from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

                self.send(200, generate_latest(consumer.metrics.registry()), CONTENT_TYPE_LATEST)
            else:
                self.error(404, f"{self.path}: no such page; there are /status, /metrics, POST /lookup")

        def do_POST(self) -> None:
            if not self._may_ask() or (body := self.body()) is None:
                return
            if self.path != "/lookup":
                self.error(404, f"{self.path}: no such page; there is POST /lookup")
                return
            try:
                table, ids = _parsed(body, bounds)
                width = consumer.width(table)
                if len(ids) * width > bounds.values:
                    raise TooMany(
                        f"{len(ids)} rows of {width}; at most {bounds.values // width} ids of {table!r} at once"
                    )
                weights, found = consumer.lookup(table, ids)
            except TooMany as error:
                self.error(413, str(error))
            except KeyError as error:
                self.error(404, str(error.args[0]))
            except (ValueError, TypeError, RuntimeError) as error:
                self.error(503 if isinstance(error, CheckpointError) else 400, str(error))
            else:
                self._answer(200, {"weights": weights.tolist(), "found": found.tolist(), "dim": width})

        def _may_ask(self) -> bool:
            if token is None or agrees(token, self.headers.get("Authorization")):
                return True
            self.refuse(
                401,
                "this server asks for its token: send `Authorization: Bearer TOKEN`, the one that it was "
                f"started with by --token-file or {VARIABLE}",
            )
            return False

        def error(self, code: int, error: str) -> None:
            headers = {"WWW_Authenticate": "Bearer"} if code == 401 else {}
            self._answer(code, {"error": error}, **headers)

        def _answer(self, code: int, content: dict[str, Any], **headers: str) -> None:
            self.send(code, json.dumps(content).encode(), "application/json", **headers)

        def log_message(self, format: str, *args: Any) -> None:
            consumer.metrics.add("requests")

    return BoundedServer((host, port), Handler, bounds)


def _parsed(body: bytes, limits: Limits) -> tuple[str, Tensor]:
    """Raises ValueError; torch would make ids of fractions, of truth values and of lists in lists."""
    request = json.loads(body)
    if not isinstance(request, dict) or request.keys() != {"table", "ids"} or not isinstance(request["table"], str):
        raise ValueError('a request is {"table": "NAME", "ids": [1, 2, ...]}')
    ids = request["ids"]
    if not isinstance(ids, list) or not all(type(number) is int for number in ids):
        raise ValueError("ids must be a list of whole numbers")
    if len(ids) > limits.ids:
        raise TooMany(f"{len(ids)} ids; at most {limits.ids} in a request")
    return request["table"], torch.tensor(ids, dtype=torch.int64)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Serves the tables of a delta stream.", allow_abbrev=False)
    parser.add_argument("--stream", required=True, help="folder that the trainers publish to")
    parser.add_argument("--name", default="server", help="by which it asks for a base; one per server")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one and prints it")
    parser.add_argument("--interval", type=float, default=0.05, help="seconds between two looks at the stream")
    parser.add_argument(
        "--token-file", help=f"holds the token that clients must send; or {VARIABLE} in the environment"
    )
    parser.add_argument("--connections", type=int, default=Limits.connections, help="at once")
    parser.add_argument("--seconds", type=float, default=Limits.seconds, help="for a request, and for its answer")
    parser.add_argument("--ids", type=int, default=Limits.ids, help="in a request")
    options = parser.parse_args(arguments)
    try:
        token = read_token(options.token_file)
        limits = Limits(connections=options.connections, seconds=options.seconds, ids=options.ids)
    except ValueError as error:
        parser.error(str(error))
    metrics = Metrics(server=options.name)
    metrics.ratio("hit_rate", "hits", "lookups")
    with Consumer(options.stream, name=options.name, interval=options.interval, metrics=metrics) as consumer:
        server = make_server(consumer, options.host, options.port, token=token, limits=limits)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        if token is None:
            print(
                f"no token: whoever reaches {options.host} reads every table; --token-file FILE asks for one",
                file=sys.stderr,
            )
        print(f"serving on port {server.server_address[1]}", flush=True)
        server.serve_forever()
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
