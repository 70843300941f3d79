"""`inv accept`: runs the parts one after the other in the image, and writes the report after each of them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grstack import failures
from grstack.accept import report
from grstack.accept.parts import PARTS, Part
from grstack.accept.results import FAILED, LATE, LEFT, PASSED, Acceptance, Result, read_tests
from grstack.engines import Mount
from grstack.launch.access import Access
from grstack.session import Session

ENDED = {124, 137}  # of timeout(1): the limit was reached; the program had to be killed
ORDER = [part.name for part in PARTS]


def show_parts(console: Console) -> None:
    for part in PARTS:
        console.print(f"{part.name:18} {part.claim} (at most {part.minutes} minutes)", soft_wrap=True)


def accept(s: Session, parts: Sequence[Part], access: Access | None, *, again: bool = False) -> int:
    """Runs what has not passed yet with this image, or all of it with `again`; returns 1 where something failed."""
    folder = s.paths.build / "accept" / s.platform
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "accept.json"
    run = _begun(s, state, again)
    for number, part in enumerate(parts, 1):
        earlier = run.of(part.name)
        if earlier and earlier.state == PASSED and not again:
            s.console.print(f"[{number}/{len(parts)}] {part.name}: passed before; --again runs it anew", markup=False)
            continue
        s.console.print(Text(f"[{number}/{len(parts)}] {part.name}: {part.claim}", style="bold"), soft_wrap=True)
        if not run.emulated and _devices(access) < part.npus:
            why = f"{part.npus} NPUs are needed, this run has {_devices(access)}"
            run.take(_left(part, {"not tried": why}), ORDER)
            s.console.print(f"{part.name}: not run: {why}", markup=False)
            continue
        run.take(_result(s, part, folder, access, emulated=run.emulated), ORDER)
        _write(run, state, folder)
    _write(run, state, folder)
    _say(s, run, folder)
    return 0 if run.passed else 1


def _begun(s: Session, state: Path, again: bool) -> Acceptance:
    """The run that goes on: the file's, where it is of the same image."""
    image = s.engine.locate(s.plan, s.plan.image)
    earlier = Acceptance.read(state)
    if earlier is not None and earlier.image == image and not again:
        return earlier
    began = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Acceptance(platform=s.platform, emulated=s.platform == "twin", image=image, began=began)


def _result(s: Session, part: Part, folder: Path, access: Access | None, *, emulated: bool) -> Result:
    mounts = {
        "SOURCE": Mount(source=s.paths.root, name="source"),
        "DATA": Mount(source=s.paths.data, name="data"),
        "OUT": Mount(source=folder, name="out", writable=True),
    }
    places = {word: s.engine.path_of(mount) for word, mount in mounts.items()}
    places |= {"MANIFEST": s.engine.manifest_path(s.plan), "LOCK": f"{places['SOURCE']}/locks/{s.lock.name}.json"}
    rehearsed = emulated and bool(part.rehearsal)
    for name in filter(None, (part.results, part.figures)):
        for file in folder.glob(name):
            file.unlink()  # an earlier run's must not be taken for this one's
    argv = ["timeout", "--signal=INT", "--kill-after=60", f"{part.minutes}m"]
    argv += [_placed(word, places) for word in (part.rehearsal if rehearsed else part.argv)]
    env = {
        "PYTHONPATH": places["SOURCE"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "GRSTACK_DATA": places["DATA"],
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    if not emulated:
        env |= {"GRSTACK_INSTALLED_OPERATORS": "1", "GRSTACK_NPUS": str(_devices(access))}
    begin = time.monotonic()
    code = s.engine.run(s.plan, argv, mounts=list(mounts.values()), env=env, access=access)
    seconds = time.monotonic() - begin
    log = folder / "logs" / f"{part.name}.log"
    log.parent.mkdir(exist_ok=True)
    if (written := s.paths.logs / "run.log").is_file():
        shutil.copyfile(written, log)
    result = Result(
        part=part.name,
        claim=part.claim,
        state=PASSED if code == 0 else LATE if code in ENDED else FAILED,
        rehearsed=rehearsed,
        seconds=round(seconds, 1),
        log=str(log.relative_to(folder)),
        on_hardware_before=part.hardware,
    )
    if part.results:
        result.tests, result.failures = read_tests(folder / part.results)
        if result.state == PASSED and not result.tests["passed"]:
            result.state, result.failures = FAILED, {"the whole suite": "no test ran"}
    elif result.state != PASSED and log.is_file():
        tail = log.read_text(errors="replace").rstrip().splitlines()[-failures.LINES :]
        result.failures = {"the end of its log": "\n".join(tail)}
    for file in folder.glob(part.figures) if part.figures else ():
        result.figures = json.loads(file.read_text())
    return result


def _devices(access: Access | None) -> int:
    return len(access.ids) if access else 1


def _left(part: Part, why: dict[str, str]) -> Result:
    return Result(
        part=part.name,
        claim=part.claim,
        state=LEFT,
        rehearsed=False,
        failures=why,
        on_hardware_before=part.hardware,
    )


def _placed(word: str, places: dict[str, str]) -> str:
    """`word` with the folder that it names in place of its name."""
    for name, place in places.items():
        for before in ("", "--junit-xml=", "--ignore=", "--override-ini=pythonpath="):
            if word.startswith(before + name):
                return before + place + word[len(before + name) :]
    return word


def _write(run: Acceptance, state: Path, folder: Path) -> None:
    for part in PARTS:
        if run.of(part.name) is None:
            run.take(_left(part, {}), ORDER)
    run.write(state)
    report.write(run, folder / "accept.html")


def _say(s: Session, run: Acceptance, folder: Path) -> None:
    for result in run.results:
        told = ", ".join(f"{count} {name}" for name, count in result.tests.items() if count)
        s.console.print(f"{result.state:14} {result.part:18} {result.seconds:8.0f} s  {told}", soft_wrap=True)
    for result in run.results:
        if result.state == LEFT and result.failures:
            s.console.print(f"{result.part}: {'; '.join(result.failures.values())}", markup=False, soft_wrap=True)
    if left := [result.part for result in run.results if result.state == LEFT and not result.failures]:
        s.console.print(
            f"{len(left)} parts not run, so the whole has not passed; next: the same command without --only",
            soft_wrap=True,
        )
    s.console.print(f"report: {folder / 'accept.html'}", soft_wrap=True)
    if run.emulated:
        s.console.print("[yellow]a rehearsal on emulated devices: it says nothing of hardware[/yellow]")
        return
    name = f"grstack-accept-{run.began[:10]}"
    archive = shutil.make_archive(str(folder.parent / name), "zip", root_dir=folder)
    s.console.print(f"to send back: {archive}; its logs name this machine's devices and folders", soft_wrap=True)
