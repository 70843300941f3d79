"""Network settings: where each value comes from, and that no credential leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grstack import network
from grstack.errors import SpecError
from grstack.network import Settings

ROOT = Path(__file__).resolve().parents[2]
SECRET = "s3cr%40t"
INDEX = f"https://user:{SECRET}@mirror.example/simple"


@pytest.fixture(autouse=True)
def no_system_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "SYSTEM_PIP_FILES", ())


def load(tmp_path: Path, own: str = "", pip: str = "", **environ: str) -> Settings:
    config, pip_conf = tmp_path / "network.yaml", tmp_path / "pip.conf"
    if own:
        config.write_text(own, encoding="utf-8")
    pip_conf.write_text(pip, encoding="utf-8")
    clean = {"HOME": str(tmp_path / "home"), "VIRTUAL_ENV": str(tmp_path), "PIP_CONFIG_FILE": str(pip_conf)}
    return network.load(clean | environ, config)


PIP_CONF = """[global]
index-url = https://pip.example/simple
extra-index-url =
    https://one.example/simple
    https://two.example/simple
proxy = http://pip-proxy.example:3128
"""


def test_first_source_wins(tmp_path: Path) -> None:
    own = "index_url: https://own.example/simple\n"
    assert load(tmp_path, "", PIP_CONF).index_url == "https://pip.example/simple"
    assert load(tmp_path, own, PIP_CONF).index_url == "https://own.example/simple"
    assert load(tmp_path, own, PIP_CONF, UV_DEFAULT_INDEX="https://uv/").index_url == "https://uv/"
    both = {"UV_DEFAULT_INDEX": "https://uv/", "PIP_INDEX_URL": "https://pip/"}
    assert load(tmp_path, own, PIP_CONF, **both).index_url == "https://pip/"
    assert load(tmp_path, own, PIP_CONF, **both, GRSTACK_INDEX_URL="https://env/").index_url == "https://env/"


def test_lists_from_every_source(tmp_path: Path) -> None:
    expected = ("https://one.example/simple", "https://two.example/simple")
    assert load(tmp_path, "", PIP_CONF).extra_index_urls == expected
    own = "extra_index_urls: [https://one.example/simple, https://two.example/simple]\n"
    assert load(tmp_path, own).extra_index_urls == expected
    assert load(tmp_path, PIP_EXTRA_INDEX_URL=" ".join(expected)).extra_index_urls == expected
    assert load(tmp_path, UV_FIND_LINKS="/a,/b").find_links == ("/a", "/b")


def test_environment_for_pip_and_uv(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("", encoding="utf-8")
    env = load(tmp_path, "", PIP_CONF, PIP_CERT=str(tmp_path / "ca.pem"), no_proxy="localhost").environment()
    assert env["PIP_INDEX_URL"] == env["UV_DEFAULT_INDEX"] == "https://pip.example/simple"
    assert env["PIP_EXTRA_INDEX_URL"] == env["UV_INDEX"] == "https://one.example/simple https://two.example/simple"
    assert env["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert env["https_proxy"] == env["HTTPS_PROXY"] == "http://pip-proxy.example:3128"
    assert env["SSL_CERT_FILE"] == env["PIP_CERT"] == str(tmp_path / "ca.pem")
    assert env["no_proxy"] == "localhost"


def test_nothing_is_set_where_nothing_is_configured(tmp_path: Path) -> None:
    assert set(load(tmp_path).environment()) == {"UV_INDEX_STRATEGY"}


def test_pip_files_can_be_switched_off(tmp_path: Path) -> None:
    config = tmp_path / "home/.config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(PIP_CONF, encoding="utf-8")
    assert load(tmp_path).index_url == "https://pip.example/simple"
    assert load(tmp_path, PIP_CONFIG_FILE="/dev/null").index_url is None


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, PIP_INDEX_URL=INDEX, HTTPS_PROXY="http://me:pw12345@proxy:1")
    for shown in (repr(settings), str(settings), f"{settings}"):
        assert SECRET not in shown
        assert "pw12345" not in shown
    text = settings.redact(f"GET {INDEX}/torch failed; token s3cr@t; via http://me:pw12345@proxy:1")
    assert text == "GET https://***@mirror.example/simple/torch failed; token ***; via http://***@proxy:1"
    assert Settings().redact("https://a:b@host/x") == "https://***@host/x"
    assert settings.environment()["PIP_INDEX_URL"] == INDEX  # commands still get it


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("index: x\nproxy: y\n", "unknown key 'index'; unknown key 'proxy'; valid keys: index_url"),
        ("index_url: {a: b}\n", "'index_url' must be a text"),
        ("[", "not valid YAML"),
        ("- a\n", "a mapping is expected"),
    ],
)
def test_malformed_file(tmp_path: Path, own: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        load(tmp_path, own)
    assert caught.value.where == str(tmp_path / "network.yaml")


def test_malformed_values(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="valid: auto, cpu, plain"):
        load(tmp_path, GRSTACK_TORCH_BUILD="gpu")
    with pytest.raises(SpecError, match="CA bundle /nowhere.pem does not exist"):
        load(tmp_path, PIP_CERT="/nowhere.pem")
    with pytest.raises(SpecError, match="pip's configuration"):
        load(tmp_path, "", "index-url = x\n")


def test_logs_name_no_host_of_this_network(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        PIP_INDEX_URL=INDEX,
        HTTPS_PROXY="http://me:pw12345@proxy.corp:3128",
        GRSTACK_REGISTRY="images.corp:5000/hub",
    )
    text = settings.conceal(f"GET {INDEX}/torch via proxy.corp:3128 with pw12345; pull images.corp:5000/hub/debian")
    assert text == "GET https://***@<index_url>/simple/torch via <https_proxy> with ***; pull <registry>/hub/debian"
    assert load(tmp_path).conceal("https://public.example/simple") == "https://public.example/simple"


def test_the_registry_stands_in_for_the_public_ones(tmp_path: Path) -> None:
    settings = load(tmp_path, GRSTACK_REGISTRY="https://images.corp:5000/hub/")
    assert settings.mirrored("debian") == ("images.corp:5000/hub/debian", "images.corp:5000/hub/library/debian")
    assert settings.mirrored("nvidia/cuda") == ("images.corp:5000/hub/nvidia/cuda",)
    assert settings.mirrored("registry.example/ascend/cann") == ("images.corp:5000/hub/ascend/cann",)
    assert load(tmp_path).mirrored("debian") == ()
    with pytest.raises(SpecError, match="without credentials"):
        load(tmp_path, GRSTACK_REGISTRY="https://me:secret@images.corp")


def test_a_command_in_the_image_gets_what_it_can_reach() -> None:
    here = Settings(
        index_url="https://packages.example.com/simple",
        extra_index_urls=("file:///srv/index", "https://more.example.com/simple"),
        find_links=("/srv/wheels", "https://wheels.example.com/all.html"),
        https_proxy="http://proxy.example.com:3128",
        ca_bundle=Path("/etc/ca.pem"),
    )
    env = here.in_a_run("/ca-bundle.pem")
    assert env["PIP_INDEX_URL"] == "https://packages.example.com/simple"
    assert env["PIP_EXTRA_INDEX_URL"] == "https://more.example.com/simple"
    assert env["PIP_FIND_LINKS"] == "https://wheels.example.com/all.html"
    assert env["https_proxy"] == env["HTTPS_PROXY"] == "http://proxy.example.com:3128"
    assert {env[name] for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")} == {"/ca-bundle.pem"}
    assert not {"PIP_INDEX_URL", "PIP_CERT"} & set(Settings(index_url="file:///srv/index").in_a_run(""))


def test_a_module_s_command_is_given_the_settings(tmp_path: Path) -> None:
    (tmp_path / "shows.py").write_text("import os, sys; print(os.environ['UV_DEFAULT_INDEX'], *sys.argv[1:])\n")
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}", "GRSTACK_INDEX_URL": "https://index.example/simple"}
    argv = [sys.executable, "-m", "grstack.network", "shows", "pip", "install"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["https://index.example/simple", "pip", "install"]
