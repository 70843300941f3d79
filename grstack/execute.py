"""Carries out a plan: what is built is kept, the rest is built in order, each step timed."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import filelock
from rich.console import Console

from grstack.engines import Engine, Inputs
from grstack.engines.artefacts import Artefacts
from grstack.errors import Busy, DiskFull, Interrupted
from grstack.paths import Paths
from grstack.plan import Kind, Plan, Step
from grstack.report import BuildReport, result_of

NEEDED_BYTES = 20 << 30  # an npu image with the CUDA build of torch takes 6 GB, three times that while it is built


def execute(
    plan: Plan, engine: Engine, paths: Paths, fetch: Callable[[], Inputs], console: Console, *, until: str = "image"
) -> BuildReport:
    """Builds `plan` up to the step (or the components whose name starts with) `until`. `fetch` gets the wheels."""
    report = BuildReport.of(plan, engine.name)
    started = time.monotonic()
    with build_lock(paths, console):
        wanted, needed = _wanted(plan, engine, until)
        try:
            _run(plan, engine, paths, fetch, console, report, wanted, needed)
        except KeyboardInterrupt as error:
            raise Interrupted(
                "interrupted; finished steps are kept and nothing half-built is",
                next_command="the same command again continues",
            ) from error
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise DiskFull("the disk is full", where=str(paths.root), next_command="inv doctor") from error
            raise
    report.seconds = round(time.monotonic() - started, 2)
    return report


def _wanted(plan: Plan, engine: Engine, until: str) -> tuple[list[Step], set[str]]:
    """The steps to look at, in order, and the names of those to carry out. A result that exists needs no inputs."""
    beside = [s for s in plan.components if s not in plan.installed] if until == "image" else []
    goals = [s for s in plan.steps if s.name == until or s.name.startswith(f"{until}/")] + beside
    needed: set[str] = set()
    queue = [goal for goal in goals if not engine.is_built(plan, goal)]
    while queue:
        step = queue.pop()
        if step.name not in needed:
            needed.add(step.name)
            queue += [s for s in plan.needed_by(step) if s.kind is Kind.WHEELS or not engine.is_built(plan, s)]
    if any(plan.step(name).kind in (Kind.ENVIRONMENT, Kind.COMPONENT) for name in needed):
        needed.add("wheels")
    names = needed | {goal.name for goal in goals} | {s.name for s in plan.components if until == "image"}
    return [step for step in plan.steps if step.name in names], needed


def _run(
    plan: Plan,
    engine: Engine,
    paths: Paths,
    fetch: Callable[[], Inputs],
    console: Console,
    report: BuildReport,
    wanted: list[Step],
    needed: set[str],
) -> None:
    artefacts = Artefacts(paths)
    inputs = Inputs()
    for number, step in enumerate(wanted, 1):
        begun = time.monotonic()
        kept = step.name not in needed
        if kept:
            status = "kept"
        else:
            console.print(f"[bold]{number}/{len(wanted)} {step.name}[/bold] {step.summary}", highlight=False)
            check_disk(paths)
            if step.kind is Kind.WHEELS:
                inputs, status = fetch(), "verified"
            else:
                engine.build(plan, step, inputs)
                status = "built"
        files = {}
        if step.kind is Kind.COMPONENT and artefacts.exists(step):
            files = artefacts.manifest(step)
            artefacts.mark_used(step)
        report.steps.append(result_of(step, status, time.monotonic() - begun, engine.locate(plan, step), files))
        if not kept:
            console.print(f"    {status} in {time.monotonic() - begun:.1f} s", style="green")


def check_disk(paths: Paths) -> None:
    paths.build.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(paths.build).free
    if free < NEEDED_BYTES // 4:
        raise DiskFull(
            f"{free / 2**30:.1f} GiB free, a build needs {NEEDED_BYTES / 2**30:.0f} GiB",
            where=str(paths.build),
            next_command="inv clean, or docker system prune",
        )


@contextmanager
def build_lock(paths: Paths, console: Console, patience: float = 7200) -> Iterator[None]:
    """One build at a time in a checkout: the second waits for the first, and says so."""
    paths.build.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(paths.build / ".lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        console.print("another build runs in this checkout; waiting for it (Ctrl-C to give up)")
        try:
            lock.acquire(timeout=patience)
        except filelock.Timeout as error:
            raise Busy(
                "another build still runs", where=str(paths.build), next_command="the same again later"
            ) from error
    try:
        shutil.rmtree(paths.scratch, ignore_errors=True)
        yield
    finally:
        lock.release()
