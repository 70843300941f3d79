"""How far the schedule of each operator is from its bound, by the counts of the emulated NPU.

    python -m benchmarks.operators_counts [--small] [--output FOLDER]

calls each of device_cases/ once and writes FOLDER/operators-counts.{json,md}. The bound is what an operator
must read, write and multiply, over 1.6 TB/s and 376 TFLOP/s (fp16); the schedule's figure is what its cores ask for.
No time is measured. What cores ask for again, such as weights and workspace, an NPU finds in L2 as long as it is there:
an L2 of the 910B's size is emulated (TWIN_COUNTS_L2 in docs/twin.md), and what it lets through is what HBM moves. The
schedule's time is the longest of that over 1.6 TB/s, of all that is asked for over L2's 7 TB/s, and of the products.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from .device_cases import cases
from .operators_device import PEAKS

RESULTS = Path(__file__).resolve().parent / "results"
BYTES, FLOPS = PEAKS["Ascend910"]
L2_BYTES = 7e12  # a second, reads and writes
L2_SIZE = 192 * 2**20  # of a 910B1 to B3, by the public platform files of the toolkit's runtime
COUNTS = "TWIN_COUNTS"
ASKED = 1.3  # of the least bytes; docs/targets.md


def counted(small: bool) -> None:
    """Each case is a step of its own in the file of the counts; prints the bounds as JSON."""
    importlib.import_module("torch_npu")
    importlib.import_module("gr_ops")
    mstx = ctypes.CDLL("libms_tools_ext.so")
    mstx.mstxRangeStartA.argtypes, mstx.mstxRangeStartA.restype = [ctypes.c_char_p, ctypes.c_void_p], ctypes.c_uint64
    mstx.mstxRangeEnd.argtypes = [ctypes.c_uint64]
    for case in cases(small):
        inputs = [x.npu() for x in case.inputs]
        torch.npu.synchronize()
        step = mstx.mstxRangeStartA(f"step {case.operator}".encode(), None)
        case.call(*inputs)
        mstx.mstxRangeEnd(step)
        torch.npu.synchronize()
        print(json.dumps([case.operator, case.shape, case.moved_bytes, case.flops]), flush=True)


def row(bound: list[Any], step: dict[str, Any]) -> dict[str, Any]:
    operator, shape, moved, flops = bound
    kernels = step["kernels"].values()
    asked = sum(kernel["bytes_read"] + kernel["bytes_written"] for kernel in kernels)
    passing = sum(kernel["hbm_read"] + kernel["hbm_written"] for kernel in kernels)
    done = 2 * sum(kernel["products"] for kernel in kernels)
    least = max(moved / BYTES, flops / FLOPS)
    times = {"HBM": passing / BYTES, "L2": asked / L2_BYTES, "products": done / FLOPS}
    longest = max(times, key=times.__getitem__)
    return {
        "operator": operator,
        "shape": shape,
        "launches": sum(sum(by_name.values()) for by_name in step["launches"].values()),
        "must move": moved,
        "moves": asked,
        "moves in HBM": passing,
        "must compute": flops,
        "computes": done,
        "bound us": round(least * 1e6, 2),
        "bound by": "bytes" if moved / BYTES >= flops / FLOPS else "products",
        "through L2 us": round(asked / L2_BYTES * 1e6, 2),
        "schedule us": round(times[longest] * 1e6, 2),
        "schedule by": longest,
    }


def run(small: bool) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.jsonl"
        environment = {**os.environ, COUNTS: str(path), "TWIN_COUNTS_L2": str(L2_SIZE), "TASK_QUEUE_ENABLE": "0"}
        command = [sys.executable, "-m", "benchmarks.operators_counts", *(["--small"] if small else [])]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        steps = [json.loads(line) for line in path.read_text().splitlines()]
    bounds = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    named = [step for step in steps if step["kind"] == "step"]
    return [row(bound, step) for bound, step in zip(bounds, named, strict=True)]


def table(rows: list[dict[str, Any]]) -> str:
    def ratio(part: float, whole: float) -> str:
        return f"{part / whole:.2f}" if whole else ""

    def bytes_of(r: dict[str, Any], what: str) -> str:
        return ("missed " if r[what] > ASKED * r["must move"] else "") + ratio(r[what], r["must move"])

    def kept(what: str) -> str:
        return f"{sum(r[what] <= ASKED * r['must move'] for r in rows)} of {len(rows)} rows"

    lines = [
        "# Operators on NPUs: bounds and schedules",
        "",
        "By `python -m benchmarks.operators_counts`, on emulated cores: bytes and products are counted, times are not"
        " measured. A bound is the longer of what must be moved over 1.6 TB/s and what must be multiplied over 376"
        " TFLOP/s; x is the schedule's figure over the bound's. `asked` are the bytes that cores ask for; `HBM` those"
        " that an emulated L2 of 192 MiB does not serve: it is empty at the start, takes whole lines of 512 bytes (a"
        " row of an embedding of 64 fp32 numbers is half of one), gives up the longest unused one, and what was written"
        " goes to HBM at the end, workspace too."
        " The schedule's time is the longest of HBM's bytes over 1.6 TB/s, of those asked for over L2's 7 TB/s, and of"
        " its products, as if the three overlapped and vector and scalar units kept up. A gradient of a weight is"
        " PyTorch's product: in the bound of `hstu_*_backward` of the layer, and not in the counts, so no x of"
        " times is given there.",
        f"{ASKED} times the bytes that must be moved is asked: HBM keeps to it in {kept('moves in HBM')}, all"
        f" that cores ask for in {kept('moves')}.",
        "",
        "| operator | shape | launches | MB must move | asked, x | HBM, x | GFLOP must compute | x | bound, us | by |"
        " schedule, us | by | x |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        whole = r["computes"] >= r["must compute"]
        lines.append(
            f"| `{r['operator']}` | {r['shape']} | {r['launches']} | {r['must move'] / 1e6:.1f} |"
            f" {bytes_of(r, 'moves')} | {bytes_of(r, 'moves in HBM')} |"
            f" {r['must compute'] / 1e9:.1f} |"
            f" {ratio(r['computes'], r['must compute'])} | {r['bound us']} | {r['bound by']} |"
            f" {r['schedule us']} | {r['schedule by']} | {ratio(r['schedule us'], r['bound us']) if whole else ''} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="shapes that are computed in seconds")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder")
    options = parser.parse_args()
    if COUNTS in os.environ:
        counted(options.small)
        return
    rows = run(options.small)
    text = table(rows)
    print(text)
    (options.output / "operators-counts.json").write_text(json.dumps(rows, indent=1) + "\n")
    (options.output / "operators-counts.md").write_text(text)


if __name__ == "__main__":
    main()
