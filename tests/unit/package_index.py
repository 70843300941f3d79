"""A package index on localhost (PEP 503 and PEP 691) with wheels made on the spot."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

from packaging.utils import canonicalize_name, parse_wheel_filename


def make_wheel(filename: str, requires: Sequence[str] = (), files: dict[str, bytes] | None = None) -> bytes:
    """The bytes of a valid wheel; the same arguments give the same bytes."""
    name, version, _, tags = parse_wheel_filename(filename)
    stem = f"{filename.split('-')[0]}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
    wheel += "".join(f"Tag: {tag}\n" for tag in sorted(map(str, tags)))
    content = dict(files or {f"{name.replace('-', '_')}.py": filename.encode()})
    content |= {f"{stem}.dist-info/METADATA": metadata.encode(), f"{stem}.dist-info/WHEEL": wheel.encode()}
    record = ""
    for path, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    content[f"{stem}.dist-info/RECORD"] = (record + f"{stem}.dist-info/RECORD,,\n").encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


def _metadata(wheel: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")))


class PackageIndex:
    """Serves `wheels` (file name to bytes). `downloads` lists the files that were asked for."""

    def __init__(self) -> None:
        self.wheels: dict[str, bytes] = {}
        self.claimed: dict[str, str] = {}  # sha256 that the index states, where it differs from the file's
        self.downloads: list[str] = []
        self.delay: dict[str, float] = {}  # seconds to wait in the middle of a file
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/simple/"

    def add(self, filename: str, requires: Sequence[str] = (), files: dict[str, bytes] | None = None) -> str:
        """Adds a wheel and returns its sha256."""
        self.wheels[filename] = make_wheel(filename, requires, files)
        return hashlib.sha256(self.wheels[filename]).hexdigest()

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _project(self, name: str) -> list[str]:
        return [filename for filename in self.wheels if parse_wheel_filename(filename)[0] == canonicalize_name(name)]

    def _page(self, name: str) -> bytes:
        files = [
            {
                "filename": filename,
                "url": f"/files/{quote(filename)}",
                "hashes": {"sha256": self.claimed.get(filename, hashlib.sha256(self.wheels[filename]).hexdigest())},
                "upload-time": "2025-01-01T00:00:00Z",
                "core-metadata": True,
            }
            for filename in self._project(name)
        ]
        return json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": files, "versions": []}).encode()

    def _handler(index) -> type[BaseHTTPRequestHandler]:  # noqa: N805 (self is the handler's)
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, _, rest = unquote(self.path).strip("/").partition("/")
                if kind == "simple" and index._project(rest):
                    self._answer(index._page(rest), "application/vnd.pypi.simple.v1+json")
                elif kind == "files" and rest in index.wheels:
                    index.downloads.append(rest)
                    self._answer(index.wheels[rest], "application/octet-stream")
                elif kind == "files" and rest.removesuffix(".metadata") in index.wheels:
                    self._answer(_metadata(index.wheels[rest.removesuffix(".metadata")]), "text/plain")
                else:
                    self.send_error(404)

            def _answer(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                half = len(body) // 2
                self.wfile.write(body[:half])
                self.wfile.flush()
                index._closing.wait(index.delay.get(unquote(self.path).rpartition("/")[2], 0.0))
                self.wfile.write(body[half:])

            def log_message(self, *_: object) -> None:
                pass

        return Handler
