"""A base of each kind, pulled by its digest from the distribution's `docker-registry` on localhost.

Slow. The bases stand in for the public ones: Debian's and Ubuntu's are bootstrapped from their own packages; that of
openEuler is a Debian with dnf, without apt, and with a repository of packages of openEuler's names that hold nothing.
Needs the distributions' packages: those of Ubuntu from the archive that GRSTACK_UBUNTU_ARCHIVE names.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from grstack import network
from grstack.engines import Inputs, bootstrap
from grstack.engines.docker import DockerEngine
from grstack.engines.find import answers
from grstack.errors import EngineError
from grstack.network import Settings
from grstack.paths import Paths
from grstack.plan import Plan, make_plan
from grstack.run import Runner
from grstack.spec import Base
from tests.project import COMPONENTS, OPERATORS, make_lock, make_project

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"debian": "bookworm", "ubuntu": "jammy", "openeuler": "bookworm"}
WRONG = f"sha256:{'0' * 64}"
CONFIG = """
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {root}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""
AS_OPENEULER = r"""
set -e
mkdir /repository /tmp/rpm
for name in $(cat /tmp/packages); do
    { printf 'Name: %s\nVersion: 1\nRelease: 1\nSummary: s\nLicense: none\nBuildArch: noarch\n' "$name"
      printf '%%description\nd\n%%files\n'; } > /tmp/rpm/package.spec
    rpmbuild -bb --quiet --define '_topdir /tmp/rpm' --define '_rpmdir /repository' /tmp/rpm/package.spec
done
createrepo_c -q /repository
mkdir -p /etc/yum.repos.d
printf '[all]\nname=all\nbaseurl=file:///repository\ngpgcheck=0\n' > /etc/yum.repos.d/all.repo
printf 'NAME="openEuler"\nID="openEuler"\nVERSION_ID="24.03"\n' > /etc/os-release
rm -rf /tmp/rpm /tmp/packages /usr/bin/apt-get
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("registry")
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def registry(store: Path) -> Iterator[str]:
    """HOST:PORT of a registry of our own. Docker takes 127.0.0.1 without TLS."""
    missing = [name for name in ("docker-registry", "mmdebstrap") if not shutil.which(name)]
    if missing or not answers():
        pytest.fail(f"these tests need a running engine and: apt-get install {' '.join(missing)}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (store / "config.yml").write_text(CONFIG.format(root=store / "blobs", port=port))
    process = subprocess.Popen(["docker-registry", "serve", str(store / "config.yml")])
    for _ in range(100):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5)
            break
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait(30)


@pytest.fixture(scope="module")
def pushed(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Base]]:
    """Makes the base of a kind, pushes it under its public name and says how versions.yaml would pin it."""
    made: dict[str, Base] = {}

    def push(kind: str) -> Base:
        if kind not in made:
            made[kind] = _push(kind, registry, tmp_path_factory.mktemp(kind))
        return made[kind]

    yield push


def _push(kind: str, registry: str, work: Path) -> Base:
    tar = work / "root.tar"
    argv = ["mmdebstrap", "--quiet", "--variant=apt"]
    if kind == "ubuntu":
        settings = network.load()
        if not settings.ubuntu_archive:
            pytest.fail("Ubuntu's base needs GRSTACK_UBUNTU_ARCHIVE=URL: an archive of its packages, or a mirror")
        sources = work / "ubuntu.sources"
        runner = Runner(Console(quiet=True), settings)
        sources.write_text(bootstrap.ubuntu_archive(KINDS[kind], work, runner, settings).text)
        argv += [KINDS[kind], str(tar), str(sources)]
    elif kind == "openeuler":
        (work / "packages").write_text((ROOT / "docker/base/packages-rpm.txt").read_text())
        (work / "as-openeuler.sh").write_text(AS_OPENEULER)
        argv += ["--include=dnf,rpm,createrepo-c", f"--customize-hook=upload {work}/packages /tmp/packages"]
        argv += [f"--customize-hook=upload {work}/as-openeuler.sh /as-openeuler.sh"]
        argv += ['--customize-hook=chroot "$1" sh /as-openeuler.sh && rm "$1"/as-openeuler.sh', KINDS[kind], str(tar)]
    else:
        argv += [KINDS[kind], str(tar)]
    subprocess.run(argv, check=True)
    return _pushed_from(tar, kind, registry)


def _pushed_from(tar: Path, kind: str, registry: str) -> Base:
    name = f"{registry}/library/{kind}:stand-in"
    subprocess.run(["docker", "import", str(tar), name], check=True, capture_output=True)
    tar.unlink()
    said = subprocess.run(["docker", "push", name], check=True, capture_output=True, text=True).stdout
    digest = next(word for word in said.split() if word.startswith("sha256:"))
    subprocess.run(["docker", "rmi", name], check=True, capture_output=True)
    return Base.model_validate({"image": kind, "tag": "stand-in", "digest": digest, "pythons": ["3.11"]})


@pytest.fixture
def engine(registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerEngine]:
    monkeypatch.setenv("GRSTACK_BASE", "registry")
    project = make_project(tmp_path)
    for file in (ROOT / "docker/base").iterdir():
        shutil.copy2(file, project / "docker/base" / file.name)
    settings = Settings(registry=registry)
    engine = DockerEngine(Paths(root=project, cache=tmp_path / "cache"), Runner(Console(), settings), settings)
    yield engine
    for image in engine.client.images.list():  # of this registry alone: the engine is not ours
        if any(digest.startswith(f"{registry}/") for digest in image.attrs["RepoDigests"] or []):
            engine.client.images.remove(image.id, force=True)


def plan_of(engine: DockerEngine, base: str) -> Plan:
    return make_plan(
        engine.paths.root,
        lock=make_lock(),
        platform="twin",
        base=base,
        build="plain",
        components=COMPONENTS,
        operators=OPERATORS,
    )


def inside(image: str, command: str) -> str:
    argv = ["docker", "run", "--rm", "--network=none", image, "sh", "-c", command]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("kind", "command", "said"),
    [
        ("debian", "g++ --version >/dev/null && python3 -V", ["Python 3.11"]),
        ("ubuntu", "g++ --version >/dev/null && ninja --version >/dev/null && python3 -V", ["Python 3.10"]),
        (
            "openeuler",
            "rpm -qa --queryformat '%{NAME}\\n'",
            (ROOT / "docker/base/packages-rpm.txt").read_text().split(),
        ),
    ],
)
def test_a_base_is_pulled_by_digest_and_gets_what_builds_need(
    kind: str, command: str, said: list[str], engine: DockerEngine, pushed: Callable[[str], Base], registry: str
) -> None:
    base = pushed(kind)
    resolved = engine.resolve_base(base, "twin")
    assert resolved == f"{kind}@{base.digest}"
    plan = plan_of(engine, resolved)
    step = plan.step("base")
    assert "pulled by digest" in step.summary and not engine.is_built(plan, step)
    engine.build(plan, step, Inputs())
    assert engine.is_built(plan, step)
    told = inside(engine.locate(plan, step), command)
    assert [word for word in said if word not in told] == [], told
    assert registry not in inside(engine.locate(plan, step), "grep -rs 127.0.0.1: /etc || true")
    assert registry not in (engine.paths.logs / "base.log").read_text()
    engine.client.images.remove(engine.locate(plan, step))


@pytest.mark.parametrize("kind", list(KINDS))
def test_another_digest_is_refused_with_what_was_asked_for(
    kind: str, engine: DockerEngine, pushed: Callable[[str], Base]
) -> None:
    there = pushed(kind)
    base = there.model_copy(update={"digest": WRONG})
    with pytest.raises(EngineError, match=f"the base image {kind}@{WRONG} cannot be pulled: .*not found") as error:
        engine.resolve_base(base, "twin")
    assert error.value.where == f"versions.yaml, bases: the digest of {kind}:stand-in"
    assert f"under the tag stand-in is {there.digest}" in str(error.value)


def test_a_registry_without_the_image_is_not_told_as_a_wrong_pin(engine: DockerEngine, registry: str) -> None:
    base = Base.model_validate({"image": "fedora", "tag": "41", "digest": WRONG, "pythons": ["3.11"]})
    with pytest.raises(EngineError, match="the registry has no fedora:41 either") as error:
        engine.resolve_base(base, "twin")
    assert error.value.next_command == f"docker push {registry}/fedora:41, from a machine that has it"


def test_a_tampered_layer_is_refused(engine: DockerEngine, registry: str, store: Path, tmp_path: Path) -> None:
    """The pin is of the manifest, the manifest's of the layers: a registry cannot give others under them."""
    (tmp_path / "noise").write_bytes(os.urandom(1 << 20))
    subprocess.run(["tar", "-C", str(tmp_path), "-cf", str(tmp_path / "noise.tar"), "noise"], check=True)
    there = set(store.rglob("data"))
    base = _pushed_from(tmp_path / "noise.tar", "noise", registry)
    (layer,) = [file for file in set(store.rglob("data")) - there if file.stat().st_size > 1 << 20]
    content = layer.read_bytes()
    layer.write_bytes(content[:-600_000] + bytes([content[-600_000] ^ 1]) + content[-599_999:])
    with pytest.raises(EngineError, match=f"noise@{base.digest}.*"):
        engine.resolve_base(base, "twin")
    layer.write_bytes(content)
    assert engine.resolve_base(base, "twin") == f"noise@{base.digest}"
