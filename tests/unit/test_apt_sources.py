"""The host's package sources, rewritten for the release of an image."""

from __future__ import annotations

from pathlib import Path

import pytest

from grstack.engines.apt_sources import sources_for, text_of

KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEB822 = f"""# Types: deb-src
Types: deb
URIs: http://mirror.corp/debian
Suites: trixie trixie-updates
Components: main
Signed-By: {KEY}

Types: deb
URIs: http://mirror.corp/debian-security
Suites: trixie-security
Components: main
Signed-By: {KEY}

Types: deb-src
URIs: http://source.corp/debian
Suites: trixie
Components: main
"""
THIRD_PARTIES = {
    "engine.sources": "Types: deb\nURIs: https://engine.example/debian\nSuites: trixie\nComponents: stable\n",
    "off.sources": "Enabled: no\nTypes: deb\nURIs: http://off.corp/debian\nSuites: trixie\nComponents: main\n",
    "tool.list": "deb [signed-by=/usr/share/keyrings/tool.gpg] https://tool.example/apt trixie main\n",
    "pg.list": "deb https://pg.example/apt trixie-pgdg main\n",
}


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    folder = tmp_path / "apt/sources.list.d"
    folder.mkdir(parents=True)
    (tmp_path / "os-release").write_text('ID=debian\nVERSION_CODENAME="trixie"\n')
    for name, text in {"debian.sources": DEB822, **THIRD_PARTIES}.items():
        (folder / name).write_text(text)
    return tmp_path / "apt"


def test_the_mirrors_of_the_host_serve_another_release(etc: Path) -> None:
    text = text_of(sources_for("debian", "bookworm", etc=etc, os_release=etc.parent / "os-release"))
    assert text.splitlines() == [
        "Types: deb",
        "URIs: http://mirror.corp/debian",
        "Suites: bookworm bookworm-updates",
        "Components: main",
        f"Signed-By: {KEY}",
        "",
        "Types: deb",
        "URIs: http://mirror.corp/debian-security",
        "Suites: bookworm-security",
        "Components: main",
        f"Signed-By: {KEY}",
    ]


def test_another_distribution_does_not_use_them(etc: Path) -> None:
    assert sources_for("ubuntu", "jammy", etc=etc, os_release=etc.parent / "os-release") == []


def test_the_one_line_format(tmp_path: Path) -> None:
    (tmp_path / "apt").mkdir()
    (tmp_path / "os-release").write_text("ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n")
    (tmp_path / "apt/sources.list").write_text(
        "# deb http://old.corp/ubuntu noble main\n"
        "deb [arch=amd64 trusted=yes] http://mirror.corp/ubuntu noble main universe # ours\n"
        "deb http://mirror.corp/ubuntu noble-backports main\n"
        "deb-src http://mirror.corp/ubuntu noble main\n"
    )
    (source,) = sources_for("ubuntu", "jammy", etc=tmp_path / "apt", os_release=tmp_path / "os-release")
    assert (source.uris, source.suites, source.components) == (
        ("http://mirror.corp/ubuntu",),
        ("jammy",),
        ("main", "universe"),
    )
    assert source.trusted


def test_this_machine_has_sources_for_itself() -> None:
    from grstack import host

    said = host.release()
    assert said["ID"] in ("debian", "ubuntu"), "these tests run on Debian or Ubuntu"
    sources = sources_for(said["ID"], said["VERSION_CODENAME"])
    assert sources and all(source.uris for source in sources)
