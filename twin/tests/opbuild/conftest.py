"""One package for the suite: building the cores into it is most of the work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from package_of import FEW, LIB64, build  # noqa: E402


@pytest.fixture(scope="session")
def vendor(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("opbuild"), FEW, "--soc", "ascend910b")


@pytest.fixture(scope="session")
def host():
    import aclnn_host

    return aclnn_host.Host(Path(str(LIB64)))


@pytest.fixture
def few(vendor) -> Path:
    return vendor / "op_api/lib/libcust_opapi.so"
