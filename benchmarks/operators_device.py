"""Times of the operators on an NPU or GPU, beside the bound of their bytes and products.

    python -m benchmarks.operators_device --device npu [--small] [--out FILE.json]

Each case is compared with the CPU's result of the same call first. Then it is called in rows that take 50 ms or more,
the device waited for at each row's end; the median of seven rows counts. The bound is the longer of the bytes that
must be read or written at least over the memory's speed, and of the products over the speed of the matrix units.
--small: shapes that emulated devices compute in seconds; their times say nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .device_cases import cases
from .device_cases.case import Case

ROWS, ROW_SECONDS = 7, 0.05
# Bytes and floating point operations (fp16, bf16) a second, by a part of the device's name; docs/targets.md.
PEAKS = {"Ascend910": (1.6e12, 376e12), "H100": (3.35e12, 989e12), "H200": (4.8e12, 989e12)}


def measure(case: Case, device: torch.device, wait: Callable[[], None], *, bounded: bool) -> dict[str, Any]:
    inputs = [x.to(device) for x in case.inputs]
    expected, found = _list(case.call(*case.inputs)), _list(case.call(*inputs))
    torch.testing.assert_close([x.cpu() for x in found], expected, rtol=case.tolerance, atol=case.tolerance)
    wait()
    once = _row(case.call, inputs, 1, wait)
    calls = max(1, int(ROW_SECONDS / max(once, 1e-6)))
    rows = sorted(_row(case.call, inputs, calls, wait) for _ in range(ROWS))
    seconds = statistics.median(rows)
    speeds = next((peak for name, peak in PEAKS.items() if name in device_name(device)), None)
    bound = max(case.moved_bytes / speeds[0], case.flops / speeds[1]) if speeds and bounded else None
    return {
        "operator": case.operator,
        "shape": case.shape,
        "ms": round(seconds * 1e3, 4),
        "quartiles": [round(rows[i] * 1e3, 4) for i in (ROWS // 4, -1 - ROWS // 4)],
        "GB/s": round(case.moved_bytes / seconds / 1e9, 1),
        "TFLOP/s": round(case.flops / seconds / 1e12, 2) if case.flops else "",
        "bound ms": round(bound * 1e3, 4) if bound else "",
        "of bound": round(bound / seconds, 3) if bound else "",
    }


def _list(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _row(call: Callable[..., Any], inputs: list[torch.Tensor], calls: int, wait: Callable[[], None]) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call(*inputs)
    wait()
    return (time.perf_counter() - begin) / calls


def device_name(device: torch.device) -> str:
    return str(getattr(torch, device.type).get_device_name(device))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="npu")
    parser.add_argument("--small", action="store_true", help="shapes for emulated devices")
    parser.add_argument("--out", type=Path, help="a JSON file (default: print only)")
    options = parser.parse_args()
    if options.device.startswith("npu"):
        importlib.import_module("torch_npu")
    importlib.import_module("gr_ops")
    device = torch.device(options.device)
    wait = getattr(torch, device.type).synchronize
    rows = []
    for case in cases(options.small):
        rows.append(measure(case, device, wait, bounded=not options.small))
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
