"""Client: lookups in a server of a stream (serving/server.py), with the interface of a Consumer."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import Tensor

from hybrid_torchrec.checkpoint.errors import CheckpointError
from hybrid_torchrec.serving.token import VARIABLE, header, read_token

_GONE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class Client:
    """Asks a server, over one connection that is kept; safe from any thread, one request at a time.

        client = Client("http://127.0.0.1:8080", token=read_token("/run/secrets/token"))
        weights, found = client.lookup("user", ids)

    `token`: what the server asks for; None takes that of $HYBRID_TORCHREC_TOKEN, if it is set. Raises PermissionError
    where the server takes another token or the client has none, ConnectionError and TimeoutError where it does not
    answer, and for the rest what Consumer.lookup raises.
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f"{url}: not of the form http://HOST:PORT")
        self.url = url
        self._token = token if token is not None else read_token()
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        self._lock = threading.Lock()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def lookup(self, table: str, ids: Tensor) -> tuple[Tensor, Tensor]:
        """ids int64 (L,) -> float32 (L, D), bool (L,) which are in the table; the others get its default row."""
        if ids.dtype != torch.int64 or ids.dim() != 1:
            raise ValueError(f"ids must be int64 of shape (L,), got {ids.dtype} of shape {tuple(ids.shape)}")
        answer = self._ask("POST", "/lookup", {"table": table, "ids": ids.tolist()})
        weights = torch.tensor(answer["weights"], dtype=torch.float32).reshape(len(ids), answer["dim"])
        return weights, torch.tensor(answer["found"], dtype=torch.bool)

    def status(self) -> dict[str, Any]:
        return self._ask("GET", "/status")

    def _ask(self, method: str, path: str, content: object = None) -> dict[str, Any]:
        body = None if content is None else json.dumps(content).encode()
        headers = {} if self._token is None else {"Authorization": header(self._token)}
        with self._lock:
            kept = self._connection.sock is not None
            try:
                code, data = self._once(method, path, body, headers)
            except _GONE:
                self._connection.close()
                if not kept:
                    raise
                code, data = self._once(method, path, body, headers)  # the server had ended the idle connection
            except BaseException:
                self._connection.close()  # half an answer may be in it
                raise
        try:
            answer: dict[str, Any] = json.loads(data)
        except ValueError:
            answer = {"error": data[:200].decode(errors="replace").strip()}
        if code == 200:
            return answer
        raise self._failure(code, f"{self.url}{path}: {answer.get('error')}")

    def _once(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def _failure(self, code: int, text: str) -> Exception:
        if code == 401:
            why = (
                "the client's token is another" if self._token else f"none was sent: Client(url, token=...), {VARIABLE}"
            )
            return PermissionError(f"{text} ({why})")
        kinds: dict[int, type[Exception]] = {404: KeyError, 503: CheckpointError}
        return kinds.get(code, ValueError if code < 500 else ConnectionError)(text)
