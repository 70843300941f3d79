"""Runs CPU programs and the unit tests that torchrec's wheel ships, each in processes of its own (run as a program).

    python cpu_runner.py FOLDER [--sharding] [NAME ...]

Everything is imported once, with torch_npu loaded by itself as in any program; what runs is forked from there, so that
one that crashes or waits for ever takes nothing else down. FOLDER/<name>.<rank>.pt holds what a program computed or the
text of its exception, FOLDER/outcomes.json the outcome of each shipped test, FOLDER/<name>.log what it printed.
--sharding adds the tests that train sharded models in several processes (minutes).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
import types
import unittest
from collections.abc import Callable
from pathlib import Path

import hypothesis
import torch
import torch.distributed as dist
import upstream_programs

# before the test modules are imported: @settings takes what it does not name from the profile
hypothesis.settings.register_profile("same", derandomize=True, database=None, print_blob=False)
hypothesis.settings.load_profile("same")

import torchrec.test_utils  # noqa: E402
from torchrec.distributed.test_utils.test_model_parallel import ModelParallelBase  # noqa: E402
from torchrec.distributed.test_utils.test_model_parallel_base import (  # noqa: E402
    ModelParallelSparseOnlyBase,
    ModelParallelStateDictBase,
)
from torchrec.models.experimental import test_transformerdlrm  # noqa: E402
from torchrec.schema import test_schema_utils  # noqa: E402
from torchrec.types import DataType  # noqa: E402

# torchrec seeds models and batches by the clock: what two runs compare would not be the same, and now and then a draw
# misses a tolerance.
torchrec.test_utils.time = types.SimpleNamespace(time=lambda: 1.0, sleep=time.sleep)  # type: ignore[assignment]

RANKS = 2
LIMIT = 60.0  # seconds for a program; they take less than two
LIMIT_OF_A_TEST = 300.0


def skip(reason: str) -> None:
    """Draws again where the CPU lacks what was drawn, instead of skipping the whole test."""
    if "does not support uvm" in reason:
        hypothesis.assume(False)
    raise unittest.SkipTest(reason)


class SparseOnly(ModelParallelSparseOnlyBase):
    def setUp(self) -> None:
        super().setUp(backend="gloo")


class StateDict(ModelParallelStateDictBase):
    skipTest = staticmethod(skip)  # type: ignore[assignment]

    def setUp(self) -> None:
        super().setUp(backend="gloo")


class Sharding(ModelParallelBase):
    skipTest = staticmethod(skip)  # type: ignore[assignment]

    def __init__(self, method: str = "runTest") -> None:
        super().__init__(method, mp_init_mode="fork")  # type: ignore[no-untyped-call]

    def _test_sharding(self, **options: object) -> None:  # type: ignore[override]
        hypothesis.assume(options.get("data_type") is not DataType.FP16)  # the CPU has no weighted pooling of it
        super()._test_sharding(**options)  # type: ignore[arg-type]

    def setUp(self) -> None:
        super().setUp(backend="gloo")


def start(body: Callable[[], None], log: Path) -> int:
    """Runs `body` in a child process, its output in `log`; returns its id. It exits with 0 unless `body` raises."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        body()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the parent's exit handlers are not the child's


def finish(children: list[int], limit: float) -> list[str]:
    """How each child ended: "0" for success; what is not over within `limit` seconds is killed."""
    ends: dict[int, str] = {}
    deadline = time.monotonic() + limit
    while len(ends) < len(children):
        for child in children:
            if child not in ends:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    ends[child] = str(os.waitstatus_to_exitcode(status))
                elif time.monotonic() > deadline:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                    ends[child] = f"not over after {limit:.0f} s"
        time.sleep(0.01)
    return [ends[child] for child in children]


def run_program(name: str, rank: int, folder: Path) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS))
    torch.manual_seed(0)
    store = f"file://{folder}/{name}.store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
    try:
        result: object = upstream_programs.PROGRAMS[name]()
    except Exception as error:
        traceback.print_exc()
        result = f"{type(error).__name__}: {error}"
    torch.save(result, folder / f"{name}.{rank}.pt")
    dist.barrier()


def run_test(test: unittest.TestCase, file: Path) -> None:
    # The destructor of gloo's group holds the GIL while it waits for a thread that frees tensors under the GIL: now and
    # then a test would never end. The processes end without it.
    dist.destroy_process_group = lambda group=None: None
    result = unittest.TestResult()
    test.run(result)
    problems = [*result.failures, *result.errors]
    if problems:
        outcome = "\n".join(["failed:", *(text for _, text in problems)])
    elif result.skipped:
        outcome = f"skipped: {result.skipped[0][1]}"
    else:
        outcome = "passed"
    file.write_text(outcome)


def shipped_tests(sharding: bool) -> list[unittest.TestCase]:
    load = unittest.defaultTestLoader
    suites = [load.loadTestsFromTestCase(case) for case in (SparseOnly, StateDict)]
    suites += [load.loadTestsFromModule(module) for module in (test_transformerdlrm, test_schema_utils)]
    suites += [load.loadTestsFromTestCase(Sharding)] if sharding else []

    def flat(suite: unittest.TestSuite) -> list[unittest.TestCase]:
        return [t for part in suite for t in (flat(part) if isinstance(part, unittest.TestSuite) else [part])]

    return flat(unittest.TestSuite(suites))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sharding", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # A fork leaves a pool of threads that the next call of set_num_threads makes anew. With NPUs the autograd engine's
    # threads, one a device, call it at the same time, and one of them may find none: "Invalid thread pool!", SIGABRT.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
    folder: Path = options.folder.resolve()
    for name in options.names or upstream_programs.PROGRAMS:
        began = time.monotonic()
        children = [
            start(lambda n=name, r=rank: run_program(n, r, folder), folder / f"{name}.{rank}.log")  # type: ignore[misc]
            for rank in range(RANKS)
        ]
        for rank, end in enumerate(finish(children, LIMIT)):
            if end != "0":
                torch.save(f"the process ended with {end}", folder / f"{name}.{rank}.pt")
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    outcomes: dict[str, str] = {}
    for test in [] if options.names else shipped_tests(options.sharding):
        began = time.monotonic()
        name = test.id().removeprefix("__main__.").removeprefix("torchrec.")
        file = folder / f"{name}.outcome"
        (end,) = finish([start(lambda t=test, f=file: run_test(t, f), folder / f"{name}.log")], LIMIT_OF_A_TEST)  # type: ignore[misc]
        outcomes[name] = file.read_text() if end == "0" else f"the process ended with {end}"
        print(f"{name}: {outcomes[name]}, {time.monotonic() - began:.1f} s", flush=True)
    (folder / "outcomes.json").write_text(json.dumps(outcomes, indent=1))
    sys.stdout.flush()
    os._exit(0)  # nothing of an accelerator was used: no exit handler of it is waited for


if __name__ == "__main__":
    main()
