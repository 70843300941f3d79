"""Builds that need the host's proxy, mirror and CA bundle: all are used, and none is found in what is left behind."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from grstack.choices import Choices
from grstack.engines import Inputs, bootstrap
from grstack.engines.apt_sources import Source
from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.errors import StepError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.plan import Plan, make_plan
from grstack.run import Runner
from grstack.session import Session
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project

ROOT = Path(__file__).resolve().parents[2]
SENTINEL = "sentinel-7f3a"
RELEASE = b"Suite: stable\nCodename: bookworm\nComponents: main\nArchitectures: amd64 arm64\n"
MIRROR = f"mirror.{SENTINEL}.invalid"
pytestmark = pytest.mark.image


class Proxy(http.server.ThreadingHTTPServer):
    """A proxy that answers for the mirror, which exists nowhere else: an empty, trusted package repository."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Repository)
        self.asked: list[str] = []
        self.broken = False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{SENTINEL}-user:{SENTINEL}-password@127.0.0.1:{self.server_port}"


class Repository(http.server.BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        files = {"InRelease": RELEASE, "Packages": b""}
        name = self.path.rpartition("/")[2]
        if name not in files or self.server.broken:
            self.send_error(404)
            return
        body = files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    server = Proxy()
    yield server
    server.shutdown()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    if not answers():
        pytest.fail("these tests need a running engine; type: inv build-image")
    project = make_project(tmp_path / "project")
    for name in ("docker/base/Dockerfile", "docker/base/apt.sh"):
        shutil.copy2(ROOT / name, project / name)
    shutil.copytree(ROOT / "docker/environment", project / "docker/environment", dirs_exist_ok=True)
    (project / "docker/base/packages.txt").write_text("ca-certificates\n")  # the base has it: nothing to download
    return project


def plan_of(root: Path, base: str, python: str = "3.11") -> Plan:
    lock = make_lock().model_copy(update={"python": python})
    return make_plan(
        root, lock=lock, platform="twin", base=base, build="plain", components=COMPONENTS, operators=OPERATORS
    )


@pytest.fixture
def engine(root: Path, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerEngine]:
    ca = root / "ca.pem"
    ca.write_text(f"{SENTINEL} is no certificate, and http needs none\n")
    settings = Settings(
        http_proxy=proxy.url,
        https_proxy=proxy.url,
        no_proxy=f"{SENTINEL}.local",
        ca_bundle=ca,
        index_url=f"https://{SENTINEL}-user@index.{SENTINEL}.invalid/simple",
        registry=f"{SENTINEL}.invalid:5000",
    )
    source = Source(uris=(f"http://{MIRROR}/debian",), suites=("bookworm",), components=("main",), trusted=True)
    monkeypatch.setattr(bootstrap, "sources_for", lambda *args: [source])
    engine = DockerEngine(Paths(root=root, cache=root / "cache"), Runner(Console(), settings), settings)
    yield engine
    for image in engine.client.images.list(filters={"label": "grstack.test=host-network"}):
        engine.client.images.remove(image.id, force=True)


def upstream_of(engine: DockerEngine, base: str) -> None:
    """The real base under the name that a pulled one would have."""
    own = (
        f"grstack/base:{Session(ROOT, Choices(), Console(quiet=True)).plan.step('base').key[:12]}"  # and not another's
    )
    # content of its own: no step above it is taken from the build cache
    script = f"FROM {own}\nLABEL grstack.test=host-network\nRUN echo {uuid.uuid4()} > /tmp/stamp\n"
    tag = engine.upstream.local_name(base)
    subprocess.run(
        [str(engine.cli), "build", "-q", "--network=host", "-t", tag, "-"],
        input=script,
        text=True,
        check=True,
        capture_output=True,
        env={**os.environ, "DOCKER_BUILDKIT": "1", "PATH": "/usr/bin:/bin"},
    )


def inputs_of(folder: Path) -> Inputs:
    """One wheel, so that the environment has something to install."""
    import hashlib
    import zipfile

    path = folder / "one-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("one.py", "")
        wheel.writestr("one-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n")
        wheel.writestr("one-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("one-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Inputs(wheels={path.name: path}, requirements=f"one==1.0 --hash=sha256:{digest}\n")


def found_in(engine: DockerEngine, image: str, *texts: bytes) -> dict[bytes, bytes]:
    """Which of the texts stand in the saved image, its layers, configuration or history, and what is around them."""
    saved = subprocess.Popen([str(engine.cli), "save", image], stdout=subprocess.PIPE)
    assert saved.stdout is not None
    found: dict[bytes, bytes] = {}
    before = b""
    while block := saved.stdout.read(1 << 20):
        for text in texts:
            here = (before + block).find(text)
            if here >= 0:
                found[text] = (before + block)[max(0, here - 100) : here + 100].strip(bytes(1))
        before = block[-100:]
    assert saved.wait() == 0
    return found


def test_the_host_network_is_used_and_never_baked_in(root: Path, engine: DockerEngine, proxy: Proxy) -> None:
    base = f"debian@sha256:{'0' * 64}"
    upstream_of(engine, base)
    plan = plan_of(root, base)
    proxy.broken = True
    with pytest.raises(StepError, match="404"):  # what apt says of the mirror goes to the terminal, not into the log
        engine.build(plan, plan.step("base"), Inputs())
    proxy.broken = False
    engine.build(plan, plan.step("base"), Inputs())
    assert any(path.startswith(f"http://{MIRROR}/debian/dists/bookworm") for path in proxy.asked)
    engine.build(plan, plan.step("environment"), inputs_of(root))
    image = engine.locate(plan, plan.step("environment"))
    marker = b"one-1.0.dist-info"
    left = found_in(engine, image, SENTINEL.encode(), marker)
    assert marker in left, "what is in the image is found"
    assert SENTINEL.encode() not in left, f"the image holds a setting of the host: {left}"
    logs = list(engine.paths.logs.rglob("*"))
    assert {log.name for log in logs} >= {"base.log", "environment.log"}
    for log in logs:
        assert SENTINEL not in log.read_text(), f"{log.name} holds a setting of the host"
    assert "<apt mirror>" in (engine.paths.logs / "base.log").read_text()


def test_a_base_with_another_python_is_refused(root: Path, engine: DockerEngine) -> None:
    base = f"debian@sha256:{'1' * 64}"
    upstream_of(engine, base)
    plan = plan_of(root, base, python="3.10")
    engine.build(plan, plan.step("base"), Inputs())
    with pytest.raises(StepError, match=r"the base has Python 3\.11, the lock is for 3\.10"):
        engine.build(plan, plan.step("environment"), inputs_of(root))
    assert not engine.is_built(plan, plan.step("environment"))
