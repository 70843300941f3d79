"""Checks, as many at a time as the machine takes, begun in the registry's order. Each says when it begins and ends.

One check keeps a core and a third busy where the CPU computes, also for an emulated NPU. A device of its own takes one
at a time: the checks report what its steps took.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from smoke_tests import report, runner
from smoke_tests.check import Check, Context
from smoke_tests.runner import Result


def at_once(context: Context) -> int:
    on_cpu = context.kind == "cpu" or bool(context.manifest.get("emulated"))
    return 2 if on_cpu and len(os.sched_getaffinity(0)) > 1 else 1


def run(checks: Sequence[Check], context: Context, arguments: Sequence[str], *, at_once: int) -> list[Result]:
    """The results in the order of `checks`. An interruption ends what runs."""
    end = threading.Event()

    def one(check: Check) -> Result:
        print(f"  {check.name}: {check.claim} ...", flush=True)
        reason = context.reason_to_skip(check)
        return runner.skip(check, reason) if reason else runner.run_check(check, arguments, context.scratch, end)

    with ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(one, check) for check in checks]
        try:
            for future in as_completed(futures):
                result = future.result()
                print(f"    {result.check}: {report.word(result)}, {result.seconds:.0f} s", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end.set()
            raise
    return [future.result() for future in futures]
