"""A base image pulled from the registry that the host's settings name: a real pull, from a registry in this process."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.errors import EngineError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.run import Runner
from grstack.spec import Base

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
pytestmark = pytest.mark.image


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry(http.server.ThreadingHTTPServer):
    """Holds one image with one small file, as `ascend/cann:8.3`. Docker takes 127.0.0.1 without TLS."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as archive:
            content = uuid.uuid4().hex.encode()
            member = tarfile.TarInfo("stamp")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        packed = gzip.compress(layer.getvalue(), mtime=0)
        rootfs = {"type": "layers", "diff_ids": [digest_of(layer.getvalue())]}
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).encode()
        described = [
            {"mediaType": f"application/vnd.docker.{kind}", "size": len(blob), "digest": digest_of(blob)}
            for kind, blob in (("container.image.v1+json", config), ("image.rootfs.diff.tar.gzip", packed))
        ]
        whole = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
        self.manifest = json.dumps(whole).encode()
        self.blobs = {digest_of(blob): blob for blob in (config, packed)}
        self.asked: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Answer(http.server.BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        name, _, last = self.path.rpartition("/")
        if self.path == "/v2/":
            self.reply(b"{}", "application/json")
        elif name == "/v2/hub/ascend/cann/manifests" and last in ("8.3", digest_of(self.server.manifest)):
            self.reply(self.server.manifest, MANIFEST)
        elif name == "/v2/hub/ascend/cann/blobs" and last in self.server.blobs:
            self.reply(self.server.blobs[last], "application/octet-stream")
        else:
            body = b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'
            self.reply(body, "application/json", status=404)

    do_HEAD = do_GET

    def reply(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        for key, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Docker-Content-Digest", digest_of(body)),
            ("Docker-Distribution-Api-Version", "registry/2.0"),
        ):
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    yield server
    server.shutdown()


@pytest.fixture
def engine(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerEngine]:
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    monkeypatch.delenv("GRSTACK_BASE", raising=False)
    settings = Settings(registry=f"{registry.host}/hub")
    engine = DockerEngine(Paths(root=tmp_path, cache=tmp_path / "cache"), Runner(Console(), settings), settings)
    yield engine
    for image in engine.client.images.list():
        if any(registry.host in digest for digest in image.attrs["RepoDigests"] or []):
            engine.client.images.remove(image.id, force=True)


def base_of(tag: str, digest: str = "") -> Base:
    pin = {"digest": digest} if digest else {"unpinned": "no digest is published"}
    return Base.model_validate({"image": "registry.example/ascend/cann", "tag": tag, "pythons": ["3.11"], **pin})


def test_a_tag_is_pulled_and_becomes_its_digest(engine: DockerEngine, registry: Registry) -> None:
    base = base_of("8.3")
    assert engine.resolve_base(base, "cann", act=False) == "registry.example/ascend/cann:8.3"
    assert registry.asked == [], "a dry run asks nothing"
    resolved = engine.resolve_base(base, "cann")
    assert resolved == f"registry.example/ascend/cann@{digest_of(registry.manifest)}"
    assert engine.client.images.get(engine.upstream.local_name(resolved)).attrs["RootFS"]["Layers"]
    asked = len(registry.asked)
    assert engine.resolve_base(base, "cann") == engine.resolve_base(base, "cann", act=False) == resolved
    assert len(registry.asked) == asked, "what is here is not asked for again"
    assert registry.host not in (engine.paths.logs / "base.log").read_text()


def test_a_pinned_image_is_pulled_by_digest(engine: DockerEngine, registry: Registry) -> None:
    digest = digest_of(registry.manifest)
    assert engine.resolve_base(base_of("8.3", digest), "cann") == f"registry.example/ascend/cann@{digest}"
    assert any(path.endswith(digest) for path in registry.asked)


def test_an_image_that_the_registry_lacks_is_said_so(engine: DockerEngine, registry: Registry) -> None:
    with pytest.raises(EngineError, match="cannot be pulled") as error:
        engine.resolve_base(base_of("9.9"), "cann")
    assert error.value.next_command == "docker login"
