"""The traps of the pinned packages: autoload without CANN, a second fbgemm_gpu, an unpatched torchrec."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Mapping

from smoke_tests.check import CheckFailed, Context, Outcome


def run(context: Context) -> Outcome:
    faults = [*autoload_faults(context), *fbgemm_faults(), *torchrec_faults(context, os.environ)]
    if faults:
        raise CheckFailed(f"{len(faults)} traps caught something", faults)
    return Outcome(f"imports are safe, one fbgemm_gpu, torchrec trains a sharded table on {context.kind}")


def autoload_faults(context: Context) -> list[str]:
    """torch alone must import where there is neither CANN nor the twin; with them it must bring torch_npu."""
    bare = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    bare["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    code = "import torch, sys; assert 'torch_npu' not in sys.modules"
    faults = _run("autoload off, no LD_LIBRARY_PATH", ["-c", code], bare)
    if _npu(context):
        whole = {name: value for name, value in os.environ.items() if name != "TORCH_DEVICE_BACKEND_AUTOLOAD"}
        code = "import torch; assert torch.npu.is_available() and torch.npu.device_count() > 0"
        faults += _run("autoload on", ["-c", code], whole)
    return faults


def fbgemm_faults() -> list[str]:
    owners = sorted(set(importlib.metadata.packages_distributions().get("fbgemm_gpu", [])))
    if len(owners) != 1:
        return [f"the folder fbgemm_gpu belongs to {len(owners)} distributions: {', '.join(owners) or 'none'}"]
    return []


def torchrec_faults(context: Context, environment: Mapping[str, str]) -> list[str]:
    """Upstream's planner refuses the NPU, and its lookups have no kernel for it; the patched one trains on it."""
    version = importlib.metadata.version("torchrec")
    faults = [] if not _npu(context) or version.endswith("+npu") else [f"torchrec is {version}, not the patched +npu"]
    return faults + _run("torchrec", ["-m", "smoke_tests.checks.sharded", context.kind], environment)


def _run(what: str, arguments: list[str], environment: Mapping[str, str]) -> list[str]:
    argv = [sys.executable, *arguments]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode == 0:
        return []
    lines = done.stderr.strip().splitlines() or ["no message"]
    raised = [line for line in lines if "Error" in line or "Exception" in line]
    return [f"{what}: exit code {done.returncode}: {(raised or lines)[-1]}"]


def _npu(context: Context) -> bool:
    return bool(context.manifest["target"] == "npu")
