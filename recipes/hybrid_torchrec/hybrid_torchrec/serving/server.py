"""A reference server: `python -m hybrid_torchrec.serving.server --stream FOLDER --port 8080`.

POST /lookup   {"table": "user", "ids": [1, 2]} -> {"weights": [[...], [...]], "found": [true, false]}
GET  /status   what is served, and how fresh
GET  /metrics  for Prometheus
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from hybrid_torchrec.checkpoint.errors import CheckpointError
from hybrid_torchrec.metrics import Metrics
from hybrid_torchrec.serving.consumer import Consumer

MOST_IDS = 1 << 20
_MOST_BYTES = 24 * MOST_IDS


def make_server(consumer: Consumer, host: str, port: int) -> ThreadingHTTPServer:
    """Port 0 takes a free one: see server_address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/status":
                self._answer(200, consumer.status())
            elif self.path == "/metrics":
                from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

                self._send(200, generate_latest(consumer.metrics.registry()), CONTENT_TYPE_LATEST)
            else:
                self._answer(404, {"error": f"{self.path}: no such page; there are /status, /metrics, POST /lookup"})

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length > _MOST_BYTES:
                self.close_connection = True
                self._answer(413, {"error": f"{length} bytes; at most {MOST_IDS} ids a request"})
                return
            body = self.rfile.read(length)
            if self.path != "/lookup":
                self._answer(404, {"error": f"{self.path}: no such page; there is POST /lookup"})
                return
            try:
                request = json.loads(body)
                ids = torch.tensor(request["ids"], dtype=torch.int64).reshape(-1)
                weights, found = consumer.lookup(str(request["table"]), ids)
            except KeyError as error:
                self._answer(404, {"error": str(error)})
            except (ValueError, TypeError, RuntimeError) as error:
                code = 503 if isinstance(error, CheckpointError) else 400
                self._answer(code, {"error": f"{error}"})
            else:
                self._answer(200, {"weights": weights.tolist(), "found": found.tolist()})

        def _answer(self, code: int, content: dict[str, Any]) -> None:
            self._send(code, json.dumps(content).encode(), "application/json")

        def _send(self, code: int, body: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            consumer.metrics.add("requests")

    return ThreadingHTTPServer((host, port), Handler)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Serves the tables of a delta stream.")
    parser.add_argument("--stream", required=True, help="folder that the trainers publish to")
    parser.add_argument("--name", default="server", help="by which it asks for a base; one per server")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one and prints it")
    parser.add_argument("--interval", type=float, default=0.05, help="seconds between two looks at the stream")
    options = parser.parse_args(arguments)
    metrics = Metrics(server=options.name)
    metrics.ratio("hit_rate", "hits", "lookups")
    with Consumer(options.stream, name=options.name, interval=options.interval, metrics=metrics) as consumer:
        server = make_server(consumer, options.host, options.port)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"serving on port {server.server_address[1]}", flush=True)
        server.serve_forever()
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
