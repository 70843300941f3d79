"""A server of HTTP that no client can hold up: bounds of time, number and size for every connection."""

from __future__ import annotations

import io
import socket
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_SLOWEST = 1 << 20  # bytes a second at which a client takes a long answer
_FULL = b"too many connections at once; try again in a second\n"
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_FULL), _FULL)
)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one client, and all of them, may take."""

    connections: int = 128  # at once, each with a thread; the next one is answered 503
    seconds: float = 10.0  # until the first byte of a request, from that to its last, and for the answer to be taken
    head_bytes: int = 1 << 15
    ids: int = 1 << 16  # of a request
    values: int = 1 << 20  # of an answer: ids times columns

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise ValueError(f"{name} must be more than 0, got {value}")

    @property
    def body_bytes(self) -> int:
        return 24 * self.ids + 4096  # 20 digits, a comma and spaces for each


class HeadTooLarge(Exception):
    pass


class _Refused(Exception):
    def __init__(self, code: int, error: str) -> None:
        super().__init__(error)
        self.code, self.error = code, error


class _TimedInput(io.RawIOBase):
    """What a client sends, until a moment and up to a number of bytes: a byte now and then does not prolong it."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._begun = False
        self._until = 0.0
        self._allowed = 0

    def begin(self, bytes_: int) -> None:
        """A request may come: its first byte within `seconds`, and the last within as many from there."""
        self._begun, self._until, self._allowed = False, time.monotonic() + self._seconds, bytes_

    def allow(self, bytes_: int) -> None:
        self._allowed += bytes_

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come in time")
        if self._allowed <= 0:
            raise HeadTooLarge
        self._connection.settimeout(left)
        count = self._connection.recv_into(memoryview(buffer)[: self._allowed])
        if not self._begun:
            self._begun, self._until = True, time.monotonic() + self._seconds
        self._allowed -= count
        return count


class BoundedHandler(BaseHTTPRequestHandler):
    """Of a BoundedServer. Answers with `send`, and reads a request's body with `body`."""

    protocol_version = "HTTP/1.1"
    server: BoundedServer

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._input = _TimedInput(self.connection, self.server.limits.seconds)
        self.rfile = io.BufferedReader(self._input)

    def handle_one_request(self) -> None:
        self._input.begin(self.server.limits.head_bytes)
        try:
            super().handle_one_request()  # ends the connection at a TimeoutError
        except HeadTooLarge:
            self.requestline, self.request_version, self.command = "", "HTTP/1.1", ""
            self.refuse(431, f"the request's head is longer than {self.server.limits.head_bytes} bytes")

    def body(self) -> bytes | None:
        """Of Content-Length bytes; None if that is refused, and the answer is sent."""
        try:
            return self._read_body()
        except _Refused as refusal:
            self.refuse(refusal.code, refusal.error)
            return None

    def _read_body(self) -> bytes:
        limits = self.server.limits
        length = self.headers.get("Content-Length", "0")
        if self.headers.get("Transfer-Encoding") or self.headers.get_all("Content-Length", [])[1:]:
            raise _Refused(411, "send the body with one Content-Length and without Transfer-Encoding")
        if not (length.isascii() and length.isdigit()):
            raise _Refused(400, f"Content-Length {length[:40]!r} is no number of bytes")
        if len(length) > 18 or int(length) > limits.body_bytes:
            raise _Refused(413, f"a body of {length[:40]} bytes; at most {limits.body_bytes}: {limits.ids} ids")
        self._input.allow(int(length))
        try:
            data = self.rfile.read(int(length))
        except TimeoutError:
            raise _Refused(408, f"the request did not come whole within {limits.seconds:g} s") from None
        if len(data) < int(length):
            raise _Refused(400, f"the body ended after {len(data)} of {length} bytes")
        return data

    def refuse(self, code: int, error: str) -> None:
        """What was not read would be taken for the next request, so the connection ends."""
        self.close_connection = True
        self.error(code, error)

    def error(self, code: int, error: str) -> None:
        raise NotImplementedError

    def send(self, code: int, body: bytes, kind: str, **headers: str) -> None:
        self.connection.settimeout(self.server.limits.seconds + len(body) / _SLOWEST)  # of all bytes, not of each
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


class BoundedServer(ThreadingHTTPServer):
    """A thread for each of `limits.connections` connections; those that come when all are taken are refused at once."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BoundedHandler], limits: Limits) -> None:
        self.limits = limits
        self._free = threading.BoundedSemaphore(limits.connections)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self._refuse(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):  # a client that went
            super().handle_error(request, client_address)

    def _refuse(self, request: socket.socket) -> None:
        try:
            request.setblocking(False)
            request.send(_REFUSAL)
            request.recv(1 << 16)  # unread bytes would make the system take the answer back
        except OSError:
            pass
        self.shutdown_request(request)
