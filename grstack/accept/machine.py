"""What the machine is, seen from inside the image: `python -m grstack.accept.machine --out FILE --manifest FILE`.

Needs the standard library, torch and torch_npu. It exits with 1 where no device can add two numbers.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grstack.ask import ask

DRIVER = Path("/usr/local/Ascend/driver/version.info")


def look(manifest: dict[str, Any]) -> dict[str, Any]:
    """Facts by name; one that cannot be had is the error's text."""
    facts: dict[str, Any] = {
        "emulated": bool(manifest.get("emulated")),
        "image": {name: manifest.get(name, "") for name in ("target", "platform", "python", "arch", "key")},
        "kernel": platform.release(),
        "processor": _told(lambda: _field(Path("/proc/cpuinfo"), "model name") or platform.machine()),
        "processors": len(os.sched_getaffinity(0)),
        "memory": _told(lambda: _field(Path("/proc/meminfo"), "MemTotal")),
        "driver": _told(lambda: DRIVER.read_text().strip()),
        "toolkit": _told(_toolkit),
        "npu-smi": _told(lambda: ask(["npu-smi", "info"]).output.strip() or "npu-smi: not found"),
    }
    if not facts["emulated"]:
        facts["the toolkit's compilers"] = _told(_compilers)
        facts["the same, while programs run"] = _told(lambda: _imports_tbe(sys.executable))
    facts["devices"] = _told(_devices)
    facts["sum of two numbers"] = _told(_sum)
    return facts


def _told(fact: Callable[[], Any]) -> Any:
    try:
        return fact()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _field(file: Path, name: str) -> str:
    lines = (line.split(":", 1) for line in file.read_text().splitlines() if line.startswith(name))
    return next((value.strip() for _, value in lines), "")


def _toolkit() -> str:
    home = Path(os.environ.get("ASCEND_HOME_PATH", ""))
    for name in ("version.info", "version.cfg", "runtime/version.info"):
        if (home / name).is_file():
            return (home / name).read_text().strip()
    return f"no version.info in {home}"


def _compilers() -> str:
    """On the base's own Python, as the operators were compiled."""
    own = Path(sys.executable).parent
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if Path(folder) != own]
    python = shutil.which("python3", path=os.pathsep.join(folders))
    if python is None:
        return f"there is no python3 on PATH beside {sys.executable}"
    return _imports_tbe(python)


def _imports_tbe(python: str) -> str:
    """Whether the toolkit's package tbe imports. torch_npu's legacy operators have it compile in the program's process:
    CANN's page of runtime dependencies names the packages that it wants there."""
    home = os.environ.get("ASCEND_HOME_PATH", "")
    places = (f"{home}/python/site-packages", f"{home}/opp/built-in/op_impl/ai_core/tbe")
    answer = ask([python, "-c", "import tbe"], env={"PYTHONPATH": os.pathsep.join(places)})
    said = (answer.errors.strip().splitlines() or [f"exit code {answer.code}"])[-1]
    return f"tbe {'imports' if not answer.code else f'does not import ({said})'} with {python}"


def _devices() -> list[dict[str, Any]]:
    torch = importlib.import_module("torch")
    importlib.import_module("torch_npu")
    devices = []
    for number in range(torch.npu.device_count()):
        properties = torch.npu.get_device_properties(number)
        devices.append({"name": properties.name, "gib": round(properties.total_memory / 2**30, 1)})
    return devices


def _sum() -> float:
    torch = importlib.import_module("torch")
    return float((torch.ones(1, device="npu") + 1).item())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    options = parser.parse_args()
    facts = look(json.loads(options.manifest.read_text()))
    options.out.write_text(json.dumps(facts, indent=1) + "\n")
    for name, value in facts.items():
        print(f"{name}: {value}")
    return 0 if facts["devices"] and facts["sum of two numbers"] == 2.0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
