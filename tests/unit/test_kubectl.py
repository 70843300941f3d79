"""kubectl's client-side dry run of every overlay and of a printed job, with a server that knows kinds and no more.

kubectl decodes each object, finds its kind in what the server says it has, and says what it would create; nothing is
sent. Kubernetes' own schemas are asked in test_kubernetes.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from grstack.launch import kubernetes

ROOT = Path(__file__).resolve().parents[2]
OVERLAYS = sorted(path.name for path in (ROOT / "deploy/kubernetes/overlays").iterdir())
KINDS = {  # group and version -> kinds
    "v1": ("ConfigMap", "Secret", "Service", "Pod", "PersistentVolumeClaim"),
    "batch/v1": ("Job",),
    "jobset.x-k8s.io/v1alpha2": ("JobSet",),
    "kubeflow.org/v1": ("PyTorchJob",),
    "batch.volcano.sh/v1alpha1": ("Job",),
}

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")


def _answer(path: str) -> dict[str, Any] | None:
    groups = [name for name in KINDS if "/" in name]
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        found = [
            {
                "name": name.partition("/")[0],
                "versions": [{"groupVersion": name, "version": name.partition("/")[2]}],
                "preferredVersion": {"groupVersion": name, "version": name.partition("/")[2]},
            }
            for name in groups
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
    name = path.removeprefix("/apis/").removeprefix("/api/")
    if name not in KINDS:
        return None
    resources = [
        {
            "name": f"{kind.lower()}s",
            "singularName": kind.lower(),
            "namespaced": True,
            "kind": kind,
            "verbs": ["create"],
        }
        for kind in KINDS[name]
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sent: list[str] = []  # what asks for more than to be told what there is


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        content = _answer(self.path.partition("?")[0])
        body = json.dumps(content or {"kind": "Status", "status": "Failure", "code": 404}).encode()
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.sent.append(self.path)
        self.send_error(403)

    do_PATCH = do_PUT = do_DELETE = do_POST

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[_Server]:
    found = _Server()
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def dry_run(server: _Server, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    address = f"--server=http://127.0.0.1:{server.server_address[1]}"
    argv = ["kubectl", address, f"--cache-dir={home}", "create", "--dry-run=client", "--validate=false", *words]
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=120)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_would_be_created(overlay: str, server: _Server, tmp_path: Path) -> None:
    done = dry_run(server, tmp_path, "-k", str(ROOT / "deploy/kubernetes/overlays" / overlay))
    assert done.returncode == 0, done.stderr
    kind = {"job": "job.batch", "jobset": "jobset.jobset.x-k8s.io", "pytorchjob": "pytorchjob.kubeflow.org"}
    wanted = kind.get(overlay.rpartition("-")[2], "job.batch.volcano.sh")
    assert f"{wanted}/gr-train created (dry run)" in done.stdout.splitlines()
    assert server.sent == []


def test_a_printed_job_would_be_created(server: _Server, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(kubernetes.document(ROOT, "grstack/cpu:cpu", ["python", "-V"], None))
    done = dry_run(server, tmp_path, "-f", str(tmp_path / "job.yaml"))
    assert done.returncode == 0 and "created (dry run)" in done.stdout, done.stderr


def test_an_object_of_no_known_kind_is_refused(server: _Server, tmp_path: Path) -> None:
    """The dry run can fail."""
    text = kubernetes.document(ROOT, "grstack/cpu:cpu", ["python", "-V"], None)
    (tmp_path / "kind.yaml").write_text(text.replace("kind: Job", "kind: Jab"))
    assert 'no matches for kind "Jab"' in dry_run(server, tmp_path, "-f", str(tmp_path / "kind.yaml")).stderr
