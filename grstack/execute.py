"""Carries out a plan: what is built is kept, the rest is built in order, each step timed."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from pathlib import Path

import filelock
from rich.console import Console

from grstack.engines import Engine, Inputs
from grstack.engines.artefacts import Artefacts
from grstack.errors import Busy, DiskFull, Interrupted
from grstack.files import disk_full, free_bytes
from grstack.needs import DISK_LEFT, GIB, disk_needed
from grstack.paths import Paths
from grstack.plan import Kind, Plan, Step
from grstack.report import BuildReport, StepResult, result_of
from grstack.run import Runner
from grstack.side_by_side import SideBySide, beside

OPERATORS_AT_ONCE = 2


def execute(
    plan: Plan, engine: Engine, paths: Paths, fetch: Callable[[], Inputs], console: Console, *, until: str = ""
) -> BuildReport:
    """Builds `plan`, or only `until` that step, or the components whose name starts so. `fetch` gets the wheels.

    Leaves a report, also of a build that failed: build/build-report.json, or, where only a part was asked for,
    build/build-report-<part>.json, so that what the image was built from stays on record.
    """
    report = BuildReport.of(plan, engine.name)
    started = time.monotonic()
    with build_lock(paths, console):
        try:
            _run(plan, engine, paths, fetch, console, report, until)
        except KeyboardInterrupt as error:
            raise Interrupted(
                "interrupted; finished steps are kept and nothing half-built is",
                next_command="the same command again continues",
            ) from error
        except OSError as error:
            raise disk_full(error, paths.build) or error from None
        else:
            report.result = engine.describe(plan)
        finally:
            report.seconds = round(time.monotonic() - started, 2)
            with contextlib.suppress(OSError, DiskFull):  # on a full disk the first error is the one to show
                report.write(report_path(paths, until))
    return report


def report_path(paths: Paths, until: str = "") -> Path:
    part = f"-{until.replace('/', '-')}" if until else ""
    return paths.build / f"build-report{part}.json"


def _select(plan: Plan, engine: Engine, until: str) -> tuple[list[Step], set[str]]:
    """The steps to report, in order, and the names of those to carry out. A result that exists needs no inputs."""
    beside = [] if until else [s for s in plan.components if s not in plan.install_order]
    named = [s for s in plan.steps if s.name == until or s.name.startswith(f"{until}/")]
    goals = named if until else [plan.image, *beside]
    to_do: set[str] = set()
    queue = [goal for goal in goals if not engine.is_built(plan, goal)]
    while queue:
        step = queue.pop()
        if step.name not in to_do:
            to_do.add(step.name)
            queue += [s for s in plan.needed_by(step) if s.kind is not Kind.WHEELS and not engine.is_built(plan, s)]
    steps = [plan.step(name) for name in to_do]
    if any(step.kind is Kind.COMPONENT or "wheels" in step.needs for step in steps):
        to_do.add("wheels")
    shown = to_do | {goal.name for goal in goals} | ({s.name for s in plan.components} if not until else set())
    return [step for step in plan.steps if step.name in shown], to_do


def _run(
    plan: Plan,
    engine: Engine,
    paths: Paths,
    fetch: Callable[[], Inputs],
    console: Console,
    report: BuildReport,
    until: str,
) -> None:
    artefacts = Artefacts(paths)
    inputs = Inputs()
    steps, to_do = _select(plan, engine, until)
    results: dict[str, StepResult] = {}

    def carry_out(step: Step) -> None:
        nonlocal inputs
        begun = time.monotonic()
        number = steps.index(step) + 1
        console.print(f"[bold]{number}/{len(steps)} {step.name}[/bold] {step.summary}", highlight=False)
        try:
            check_disk((paths.build, paths.cache, *engine.places()), plan.target)
            if step.kind is Kind.WHEELS:
                inputs, status = fetch(), "verified"
                report.wheels = inputs.names
            else:
                engine.build(plan, step, inputs)
                status = "built"
        except BaseException:
            results[step.name] = result_of(step, "failed", time.monotonic() - begun, "", {})
            raise
        console.print(f"    {step.name}: {status} in {time.monotonic() - begun:.1f} s", style="green")
        note(step, status, time.monotonic() - begun)

    def note(step: Step, status: str, seconds: float) -> None:
        files = {}
        if step.kind is Kind.COMPONENT and artefacts.exists(step):
            files = artefacts.manifest(step)
            artefacts.mark_used(step)
        results[step.name] = result_of(step, status, seconds, engine.locate(plan, step), files)

    try:
        for step in steps:
            if step.name not in to_do:
                note(step, "kept", 0.0)
        for group in groups([step for step in steps if step.name in to_do]):
            _carry_out(group, carry_out, engine.runner)
    finally:
        report.steps += [results[step.name] for step in steps if step.name in results]


def groups(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """The steps in their order; those of one group are built side by side.

    Most compile with all cores and much memory. Downloads over a slow network leave the cores to the base (where both
    want the processor nothing is won), and an operator, which is small, waits for the disk and for one core.
    """
    left = list(steps)
    while left:
        first = left[0]
        if first.kind is Kind.WHEELS:
            group = [first, *takewhile(_is_base, left[1:])]
        elif _is_operator(first):
            group = list(takewhile(_is_operator, left))
        else:
            group = [first]
        yield group
        del left[: len(group)]


def _is_base(step: Step) -> bool:
    return step.kind is Kind.BASE


def _is_operator(step: Step) -> bool:
    return step.name.startswith("operators/")


def _carry_out(group: Sequence[Step], one: Callable[[Step], None], runner: Runner) -> None:
    first, *others = group
    if not others:
        one(first)
    elif first.kind is Kind.WHEELS:  # its progress has the terminal
        (base,) = others
        with beside(partial(one, base), runner):
            one(first)
    else:
        jobs = {step.name: partial(one, step) for step in group}
        SideBySide(jobs, at_once=OPERATORS_AT_ONCE, runner=runner).run()


def check_disk(places: Sequence[Path], target: str) -> None:
    """Refuses to start a step where the checkout, the cache or the engine's store has next to no room."""
    for place in places:
        free = free_bytes(place)
        if free < DISK_LEFT:
            raise DiskFull(
                f"{free / GIB:.1f} GiB free, a step needs {DISK_LEFT / GIB:.0f} GiB and a first build "
                f"{disk_needed(target) / GIB:.0f} GiB",
                where=str(place),
                next_command="inv clean, then docker builder prune",
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
