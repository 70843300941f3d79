from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from package_index import PackageIndex

from grstack.network import Settings


@pytest.fixture
def clean_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without package settings of its own: what a test asks of an index comes from its own index only."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "GRSTACK_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def index(
    clean_network: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PackageIndex]:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path_factory.mktemp("uv-cache")))
    server = PackageIndex()
    yield server
    server.close()


@pytest.fixture
def settings(index: PackageIndex) -> Settings:
    return Settings(index_url=index.url, no_proxy="127.0.0.1")
