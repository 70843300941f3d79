"""PEP 517 backend of ascend_twin: the Ascend home that recipes/twin builds, packed with the Python package.

TWIN_HOME names a home that is built already, such as an installed one; a recipe's build finds the artefact of
recipes/twin in GRSTACK_DEPS. Without both, recipes/twin/build.sh builds one with this Python's torch and torch_npu.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = ROOT.parents[1]
sys.path.insert(0, str(REPOSITORY / "recipes/wheels"))

from native_wheel import NativeWheel  # noqa: E402

# Everything of a home but opp/vendors, where operator packages are installed.
PARTS = ("bin", "compiler", "include", "lib64", "opp/version.info", "runtime", "set_env.sh", "tools", "version.info")


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel into wheel_directory and return its file name."""
    dependencies = os.environ.get("GRSTACK_DEPS")
    if built := os.environ.get("TWIN_HOME") or (dependencies and f"{dependencies}/twin"):
        return _pack(Path(built), wheel_directory)
    with tempfile.TemporaryDirectory(prefix="ascend_twin-build-") as home:
        environment = {**os.environ, "GRSTACK_SOURCE": str(REPOSITORY), "GRSTACK_PYTHON": sys.executable}
        command = ["bash", str(REPOSITORY / "recipes/twin/build.sh")]
        subprocess.run(command, env={**environment, "GRSTACK_OUT": home}, check=True)
        return _pack(Path(home), wheel_directory)


def _pack(home: Path, wheel_directory: str) -> str:
    trees = {f"home/{part}": home / part for part in PARTS}
    scripts = {"ascend-twin": "ascend_twin.__main__:main"}
    points = {
        "pytest11": {"ascend_twin": "ascend_twin.pytest_plugin"},
        "torch.backends": {"ascend_twin": "ascend_twin.compile_guard:register"},
    }
    wheel = NativeWheel(root=ROOT, package="ascend_twin", trees=trees, scripts=scripts, entry_points=points)
    return wheel.build(wheel_directory)
