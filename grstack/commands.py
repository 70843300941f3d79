"""What the tasks do. Each function is one command; tasks.py only parses and calls."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grstack.choices import Choices
from grstack.engines import Mount
from grstack.engines.artefacts import Artefacts
from grstack.engines.docker import MANIFEST
from grstack.errors import Interrupted, StepError, UsageError
from grstack.execute import execute
from grstack.launch.machine import Machine
from grstack.launch.request import Request, access_of, place, text_of
from grstack.plan import Kind, Plan
from grstack.report import BuildReport
from grstack.run import Runner
from grstack.session import Session

ROOT = Path(__file__).resolve().parent.parent


def _console() -> Console:
    wide = None if sys.stdout.isatty() else 140
    return Console(width=wide, highlight=False)


def session(choices: Choices) -> Session:
    return Session(ROOT, choices, _console())


def build_image(choices: Choices, *, dry_run: bool = False, explain: bool = False) -> BuildReport | None:
    """Builds the image (or the local prefix), or only shows what would be done."""
    from grstack.plan import explain as reading

    s = session(choices)
    if dry_run or explain:
        plan, states = _plan_and_states(s)
        if explain:
            reading.explain(plan, s.console)
        else:
            reading.show(plan, states, s.console)
        return None
    report = _built(s)
    report.show(s.console)
    words = _choice_words(choices)
    following = f"make shell{words}" if choices.devel else f"make smoke-test{words}"
    s.console.print(
        f"[green]{s.engine.short_name(s.plan)} is ready[/green] ({s.engine.locate(s.plan, s.plan.image)});"
        f" next: {following}",
        soft_wrap=True,
    )
    return report


def _choice_words(choices: Choices) -> str:
    """For make, what differs from the default."""
    given = {"target": choices.target, "platform": choices.platform, "base": choices.base, "python": choices.python}
    default = Choices()
    words = " ".join(f"--{name} {value}" for name, value in given.items() if value != getattr(default, name))
    words = f"{words} --devel".strip() if choices.devel else words
    return f' ARGS="{words}"' if words else ""


def _plan_and_states(s: Session) -> tuple[Plan, dict[str, str]]:
    from grstack.engines.find import answers

    if s.choices.engine == "none" or answers():
        plan = s.plan_to_show(with_engine=True)
        return plan, {
            step.name: "there" if step.kind is not Kind.WHEELS and s.engine.is_built(plan, step) else "to do"
            for step in plan.steps
        }
    plan = s.plan_to_show(with_engine=False)
    return plan, dict.fromkeys((step.name for step in plan.steps), "to do (no engine answers)")


def _built(s: Session, until: str = "", *, take_name: bool = True) -> BuildReport:
    """`take_name`: the short name of the image becomes this checkout's, whosever it was."""
    report = execute(s.plan, s.engine, s.paths, s.fetch, s.console, until=until)
    Artefacts(s.paths).publish(s.plan.components)
    if not until:
        _name(s, take=take_name)
    return report


def _name(s: Session, *, take: bool) -> None:
    said = s.engine.name_result(s.plan, take=take)
    if said:
        s.console.print(Text(f"note: {said}", style="yellow"), soft_wrap=True)


def tag(choices: Choices) -> None:
    """Makes the short name (grstack/npu:twin) this checkout's again."""
    s = session(choices)
    if not s.engine.is_built(s.plan, s.plan.image):
        raise UsageError(
            "this checkout has no image to name: it is not built, or was changed since",
            next_command=f"inv build-image{choices.words()}",
        )
    _name(s, take=True)
    s.console.print(f"{s.engine.short_name(s.plan)} is {s.engine.locate(s.plan, s.plan.image)}")


def install_ops(
    choices: Choices, *, operators: tuple[str, ...] = (), into: str = "", soc: str = "", force: bool = False
) -> None:
    """Builds the operators' packages and installs them: into the image, or into an opp directory of this host."""
    s = session(choices)
    for name in operators:
        if name not in s.versions.operators:
            raise UsageError.unknown("operator", name, s.versions.operators)
    if soc:
        from grstack import install

        install.check_soc(s, operators or tuple(s.versions.operators), soc)
    if into:
        _install_into(s, operators, Path(into).expanduser().resolve(), soc=soc, force=force)
        return
    if operators or soc or force:
        raise UsageError(
            "an image holds every operator; --op, --soc and --force go with --into DIR",
            next_command="inv install-ops --into DIR",
        )
    _built(s).show(s.console)
    for name in s.versions.operators:
        s.console.print(f"installed: vendor mxrec_{name} in {s.engine.short_name(s.plan)}")


def _install_into(s: Session, operators: tuple[str, ...], target: Path, *, soc: str, force: bool) -> None:
    from grstack import install

    install.check_target(target)
    until = "packages" if soc else "operators"
    _built(s, until=f"operators/{operators[0]}" if len(operators) == 1 and not soc else until).show(s.console)
    install.install(s, install.packages(s, operators, soc), target, force=force)
    said = Text(f"installed under {target}/vendors", style="green")
    s.console.print(said.append(f"; next: {install.use(target) or 'inv opp list'}", style="default"), soft_wrap=True)


def opp(
    choices: Choices,
    action: str,
    name: str = "",
    *,
    into: str = "",
    image: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> int:
    """The vendor manager: which vendor serves which operator, why, and whether it is sound."""
    from grstack.opp import command

    # what a program reads is alone on the standard output
    s = Session(ROOT, choices, Console(stderr=True) if as_json else _console())
    return command.opp(s, action, name, into=into, image=image, force=force, as_json=as_json)


def fetch_data(name: str, *, from_file: str = "") -> Path:
    """Fetches a public data set into data/<name>, verified by the published hash; says so where there is none."""
    from grstack import fetch

    s = session(Choices())
    folder: Path = fetch.fetch_data(s.paths.root, name, s.paths.data, from_file=Path(from_file) if from_file else None)
    s.console.print(f"{name}: {os.path.relpath(folder, s.paths.root)}")
    if said := fetch.not_verified(s.versions.datasets[name], folder):
        s.console.print(Text(f"not verified: {said}", style="yellow"), soft_wrap=True)
    return folder


def rank_table(hosts: str, devices: str, *, folder: str = "", out: str = "") -> None:
    """Shows HCCL's rank table of the hosts, or writes it to `out`."""
    from grstack.launch import rank_table as tables

    read = tables.copies(Path(folder)) if folder else tables.over_ssh
    text = tables.document(tables.hosts_of(hosts), devices, read)
    if not out:
        print(text, end="")
        return
    file = Path(out).expanduser().resolve()
    try:
        file.write_text(text)
    except OSError as error:
        following = f"mkdir -p {shlex.quote(str(file.parent))}" if not file.parent.exists() else "--out another file"
        raise UsageError(f"--out {out}: {error.strerror}", next_command=following) from error
    _console().print(f"{out}: on every host  export RANK_TABLE_FILE={shlex.quote(str(file))}", soft_wrap=True)


def lint(*, fix: bool = False) -> list[str]:
    """Runs every linter; returns the names of those that found something."""
    from grstack import lint as linters

    console = _console()
    failed = linters.run(ROOT, Runner(console), fix=fix)
    linters.advise(failed, console)
    return failed


def smoke_test(choices: Choices, request: Request | None = None, machine: Machine | None = None) -> None:
    """Runs smoke_tests in the image and leaves build/smoke/smoke-report.{json,html}."""
    request = request or Request()
    s = _session_for(choices, request)
    machine = machine or Machine()
    access = access_of(s, request, machine, s.console)
    out = s.paths.build / "smoke"
    mounts = {
        "out": Mount(source=out, name="out", writable=True),
        "data": Mount(source=s.paths.data, name="data"),
        "locks": Mount(source=s.paths.root / "locks", name="locks"),
    }
    if request.form:
        argv = _smoke_argv(s, {name: place(mount) for name, mount in mounts.items()}, MANIFEST)
        print(text_of(s, request, access, machine, argv, list(mounts.values()), shell=False))
        return
    fetch_data("ml-100k")
    out.mkdir(parents=True, exist_ok=True)
    for kind in ("json", "html"):
        (out / f"smoke-report.{kind}").unlink(missing_ok=True)
    build = _built(s)
    if build.built_anything:
        build.show(s.console)
    places = {name: s.engine.path_of(mount) for name, mount in mounts.items()}
    argv = _smoke_argv(s, places, s.engine.manifest_path(s.plan))
    code = s.engine.run(s.plan, argv, mounts=list(mounts.values()), access=access)
    report = out / "smoke-report.html"
    s.console.print(f"report: {os.path.relpath(report, s.paths.root)}" if report.exists() else "no report was written")
    if code:
        raise StepError(
            f"the smoke test failed (exit code {code})",
            where=str(s.paths.logs / "run.log"),
            next_command=f"inv shell{choices.words()}, then python -m smoke_tests --help",
        )
    s.console.print("[green]the smoke test passed[/green]")


def _smoke_argv(s: Session, places: Mapping[str, str], manifest: str) -> list[str]:
    argv = ["python", "-m", "smoke_tests", "--out", places["out"], "--data-dir", places["data"]]
    return [*argv, "--lock", f"{places['locks']}/{s.lock.name}.json", "--manifest", manifest]


def _session_for(choices: Choices, request: Request) -> Session:
    """What is printed for a file or a shell is alone on the standard output."""
    return Session(ROOT, choices, Console(stderr=True, highlight=False) if request.form else _console())


def run(
    choices: Choices,
    argv: list[str],
    *,
    interactive: bool = False,
    request: Request | None = None,
    machine: Machine | None = None,
) -> int:
    """Runs a command in the image with the repository, the data and an output folder mounted.

    `request` says which devices of `machine` it gets, or that the run is only to be printed.
    """
    request = request or Request()
    s = _session_for(choices, request)
    machine = machine or Machine()
    access = access_of(s, request, machine, s.console)
    out = s.paths.build / "out"
    mounts = [
        Mount(source=out, name="out", writable=True),
        Mount(source=s.paths.data, name="data", writable=True),
        Mount(source=s.paths.root, name="source"),
    ]
    if request.form:
        print(text_of(s, request, access, machine, argv, mounts, shell=interactive))
        return 0
    out.mkdir(parents=True, exist_ok=True)
    s.paths.data.mkdir(parents=True, exist_ok=True)
    _built(s, take_name=False)
    bundle = s.settings.ca_bundle
    ca = Mount(source=bundle, name="ca-bundle.pem") if bundle else None
    mounts += [ca] if ca else []
    private = s.settings.in_a_run(s.engine.path_of(ca) if ca else "")
    try:
        return s.engine.run(
            s.plan, argv, mounts=mounts, interactive=interactive, access=access, private=private, saves=not interactive
        )
    except KeyboardInterrupt as error:
        raise Interrupted(
            "ended at once: what the command had not saved is lost",
            next_command=f'inv run{choices.words()} "python -m gr_model.train --resume /out/RUN", if it was a training',
        ) from error


def notebook(choices: Choices, request: Request, machine: Machine | None = None, *, port: str, address: str) -> int:
    """Serves JupyterLab in the image until it is ended; returns the server's exit code."""
    from grstack.notebook import command

    number, token = command.check_place(address, port), command.check_token()
    s = session(choices)
    access = access_of(s, request, machine or Machine(), s.console)
    _built(s, take_name=False)
    return command.notebook(s, access, port=number, address=address, token=token)


def ssh(
    choices: Choices, request: Request, machine: Machine | None = None, *, port: str, address: str, key: str = ""
) -> int:
    """Serves SSH in the image until it is ended; returns the server's exit code."""
    from grstack.notebook import command

    number, public = command.check_place(address, port), command.public_key(key)
    s = session(choices)
    access = access_of(s, request, machine or Machine(), s.console)
    _built(s, take_name=False)
    return command.ssh(s, access, port=number, address=address, key=public)


def evidence(*, renew: str = "", record: str = "", commit: str = "", as_json: bool = False) -> int:
    """Lists, renews or records the committed results; 1 where one is stale, or could not be renewed."""
    from grstack.evidence import command
    from grstack.evidence import renew as renewing
    from grstack.evidence.table import HOST

    if record:
        for line in command.record(ROOT, record.split(","), commit):
            print(line)
        return 0
    if not renew:
        return command.listed(ROOT, _console(), as_json=as_json)
    states = command.chosen(ROOT, renew)
    renewing.check(states)
    s = session(Choices(devel=True))  # some compile
    for name in {state.evidence.needs for state in states} - {""}:
        fetch_data(name)
    if any(state.evidence.where != HOST for state in states):
        _built(s, take_name=False)
    failed = renewing.renew(s, states)
    s.console.print(f"renewed: {len(states) - len(failed)} of {len(states)}; look at them, then: git add benchmarks")
    return 1 if failed else 0


def accept(
    choices: Choices,
    request: Request | None = None,
    machine: Machine | None = None,
    *,
    only: str = "",
    again: bool = False,
    listed: bool = False,
) -> int:
    """All that can be tried on real devices; leaves build/accept/PLATFORM with a report."""
    from grstack.accept import command, parts

    s = session(replace(choices, devel=True))  # some suites compile
    if listed:
        command.show_parts(s.console)
        return 0
    chosen = parts.chosen(only)
    request = request or Request()
    devices = request.devices or ("" if s.platform == "twin" else "all")
    access = access_of(s, replace(request, devices=devices), machine or Machine(), s.console)
    fetch_data("ml-100k")
    _built(s, take_name=False)
    return command.accept(s, chosen, access, again=again)


def lock(only: tuple[str, ...] = (), *, check: bool = False) -> None:
    """Resolves every (target, python, arch) anew into locks/, or only checks that none is stale."""
    from grstack import locks

    s = session(Choices())
    if check:
        s.console.print(f"{len(locks.check_all(ROOT, s.versions))} locks agree with versions.yaml")
        return
    for path in locks.lock_all(ROOT, s.versions, only or None, console=s.console):
        s.console.print(os.path.relpath(path, ROOT))


def clean(*, everything: bool = False, dry_run: bool = False) -> None:
    """Shows what no current plan needs and how much room it takes, then removes it."""
    from grstack import clean as cleaning
    from grstack.engines import Engine
    from grstack.engines.docker import DockerEngine
    from grstack.engines.find import answers
    from grstack.engines.images import DockerImages
    from grstack.engines.local import LocalEngine

    s = session(Choices())
    engines: list[Engine] = [LocalEngine(s.paths, s.runner, s.settings)]
    images = None
    if answers():
        docker = DockerEngine(s.paths, s.runner, s.settings)
        engines.append(docker)
        images = DockerImages(docker.client)
    else:
        s.console.print("no container engine answers: images are not looked at")
    keep = cleaning.current_keys(s, engines)
    items = cleaning.collect(s.paths, keep, images, everything=everything)
    if images is not None:
        cleaning.show_unknown(s.paths, keep, images, s.console)
    if not items:
        s.console.print("nothing to remove")
        return
    cleaning.show(items, s.console)
    if dry_run:
        s.console.print("nothing was removed (--dry-run)")
        return
    freed = cleaning.remove(items, s.paths, images, s.console)
    s.console.print(f"[green]removed {cleaning.human(freed)}[/green]")


def doctor(*, as_json: bool = False) -> int:
    """What this machine has and lacks; the exit code is 1 where something must be mended."""
    from grstack.doctor import run_doctor

    return int(run_doctor(ROOT, as_json=as_json))
