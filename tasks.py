"""The commands. Each parses and calls; the work is in grstack. `make X` calls `inv X`."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from invoke import Collection, Context, Task, task
from invoke.exceptions import Exit
from invoke.main import program

OPTIONS = {
    "target": "what the image is for: npu, cpu or cuda",
    "platform": "behind target npu: twin (emulated, the default) or cann (Huawei's toolkit)",
    "base": "on platform cann, another toolkit, chip or distribution: cann-8.5.0-910b and others of versions.yaml",
    "python": "3.11 (default), or 3.10 on Ubuntu 22.04 (npu on the twin, cpu); with --engine none, this machine's own",
    "engine": "auto, docker, or none (a local prefix, for machines where no engine can run)",
}
DEVEL = {"devel": "the variant with compilers, build tools and tests: grstack/npu:twin-devel"}
DEVICES = {
    "devices": "on cann and cuda: 0,2-3, all or none (default: one, the first that is free)",
    "force": "start although a device is busy or missing, or its driver old",
    "print": "only show the same as docker (default), podman, compose or k8s",
}


def _help(*options: str, **more: str) -> dict[str, str]:
    return {**{name: OPTIONS[name] for name in options}, **more}


def _call(function: Callable[[], Any]) -> Any:
    """Shows an expected error as text with its exit code; anything else keeps its traceback."""
    from grstack.commands import ROOT
    from grstack.errors import GrstackError, UsageError
    from grstack.files import not_ours

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        done = function()
        sys.stdout.flush()
        return done
    except BrokenPipeError:  # `inv ... | head`: the reader has seen enough
        _say_no_more()
        raise Exit(code=128 + signal.SIGPIPE) from None
    except PermissionError as error:
        if not (closed := not_ours(error, ROOT)):
            raise
        raise Exit(f"error: {closed}", code=closed.exit_code) from None
    except GrstackError as error:
        if isinstance(error, UsageError) and not error.next_command:
            error.next_command = f"inv --help {_typed_task()}"
        raise Exit(f"error: {error}", code=error.exit_code) from None
    except KeyboardInterrupt:
        parsed = getattr(program, "core", None)
        again = f"inv {shlex.join(parsed.unparsed)}" if parsed else "inv --list"
        raise Exit(f"interrupted; the same command again continues\n  next:  {again}", code=130) from None


def _say_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _at_the_top(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What invoke prints itself (`inv --list | head`) may meet a reader that has gone, too."""
    if issubclass(kind, BrokenPipeError):
        _say_no_more()
    else:
        sys.__excepthook__(kind, error, trace)


def _typed_task() -> str:
    """The task that runs: of several on one command line the first that is named, which is the only one of most."""
    tasks = getattr(program, "tasks", ())
    return tasks[0].name if tasks else "build-image"


def _interrupt(*_: object) -> None:
    """SIGTERM ends a command as Ctrl-C does: its containers and processes go with it."""
    raise KeyboardInterrupt


def _request(devices: str, force: bool, form: str) -> Any:
    from grstack.launch.request import Request

    return Request(devices=devices, force=force, form=form)


def _choices(*, devel: bool = False, **given: str) -> Any:
    from grstack.choices import Choices

    return Choices(devel=devel, **given)


@task(help=_help(*OPTIONS, **DEVEL, dry_run="show the plan only", explain="show from what each key is made"))
def build_image(
    c: Context,
    target: str = "npu",
    platform: str = "",
    base: str = "",
    python: str = "",
    engine: str = "auto",
    dry_run: bool = False,
    explain: bool = False,
    devel: bool = False,
) -> None:
    """Build the pinned image; what is already built is kept."""
    from grstack import commands

    choices = _choices(target=target, platform=platform, base=base, python=python, engine=engine, devel=devel)
    _call(lambda: commands.build_image(choices, dry_run=dry_run, explain=explain))


@task(
    help=_help(
        "platform",
        "base",
        "python",
        "engine",
        op="one operator (with --into)",
        into="an opp directory of this host, instead of the image",
        soc="with --into: the package of this SoC only (default: all its SoCs)",
        force="with --into: also over another vendor's operators, and without the checks of compatibility",
    )
)
def install_ops(
    c: Context,
    platform: str = "",
    base: str = "",
    python: str = "",
    engine: str = "auto",
    op: str = "",
    into: str = "",
    soc: str = "",
    force: bool = False,
) -> None:
    """Build the operators' .run packages and install them."""
    from grstack import commands

    choices = _choices(platform=platform, base=base, python=python, engine=engine)
    operators = (op,) if op else ()
    _call(lambda: commands.install_ops(choices, operators=operators, into=into, soc=soc, force=force))


@task(
    positional=[],
    help=_help(
        "platform",
        "base",
        "python",
        "engine",
        action="list, which OPERATOR, verify, or remove VENDOR",
        name="the operator or the vendor",
        into="an opp directory of this host (default: ASCEND_OPP_PATH and ASCEND_CUSTOM_OPP_PATH, else the image)",
        image="look into the image although the variables are set",
        force="remove a vendor that brings no uninstaller",
        json="print what was found as JSON",
    ),
)
def opp(
    c: Context,
    action: str = "list",
    name: str = "",
    platform: str = "",
    base: str = "",
    python: str = "",
    engine: str = "auto",
    into: str = "",
    image: bool = False,
    force: bool = False,
    json: bool = False,
) -> None:
    """Which vendor serves which operator, and why: inv opp list | which OPERATOR | verify | remove VENDOR."""
    from grstack import commands

    choices = _choices(platform=platform, base=base, python=python, engine=engine)
    code = _call(lambda: commands.opp(choices, action, name, into=into, image=image, force=force, as_json=json))
    if code:
        raise Exit(code=code)


@task(help={**_help(*OPTIONS), **DEVICES})
def smoke_test(
    c: Context,
    target: str = "npu",
    platform: str = "",
    base: str = "",
    python: str = "",
    engine: str = "auto",
    devices: str = "",
    force: bool = False,
    print: str = "",
) -> None:
    """Run the smoke test in the image; leaves build/smoke/smoke-report.html."""
    from grstack import commands

    choices = _choices(target=target, platform=platform, base=base, python=python, engine=engine)
    _call(lambda: commands.smoke_test(choices, _request(devices, force, print)))


@task(help={**_help(*OPTIONS), **DEVICES})
def smoke(
    c: Context,
    target: str = "npu",
    platform: str = "",
    base: str = "",
    python: str = "",
    engine: str = "auto",
    devices: str = "",
    force: bool = False,
    print: str = "",
) -> None:
    """Everything: fetch the data, build the image, train and check in the container."""
    chosen = {"target": target, "platform": platform, "base": base, "python": python, "engine": engine}
    smoke_test(c, **chosen, devices=devices, force=force, print=print)


@task(
    positional=[],
    help=_help(
        "platform",
        "base",
        "python",
        "engine",
        only="some parts, by commas: inv accept --only machine,smoke",
        devices="on cann: 0,2-3 or all (default)",
        force=DEVICES["force"],
        again="also what has passed before with the same image",
        list="only list the parts",
    ),
)
def accept(
    c: Context,
    platform: str = "",
    base: str = "",
    python: str = "",
    engine: str = "auto",
    devices: str = "",
    force: bool = False,
    only: str = "",
    again: bool = False,
    list: bool = False,
) -> None:
    """For owners of NPUs: run all that real devices can run, and write one report: inv accept --platform cann."""
    from grstack import commands

    choices = _choices(platform=platform, base=base, python=python, engine=engine)
    request = _request(devices, force, "")
    if _call(lambda: commands.accept(choices, request, only=only, again=again, listed=list)):
        raise Exit(code=1)


@task(
    positional=["command"],
    help={**_help(*OPTIONS, **DEVEL, command="what to run in the image, as one argument"), **DEVICES},
)
def run(
    c: Context,
    command: str,
    target: str = "npu",
    platform: str = "",
    base: str = "",
    python: str = "",
    engine: str = "auto",
    devices: str = "",
    force: bool = False,
    print: str = "",
    devel: bool = False,
) -> None:
    """Run a command in the image: inv run "python -m gr_model.train --config ml-100k-retrieval --out /out/a"."""
    from grstack import commands

    choices = _choices(target=target, platform=platform, base=base, python=python, engine=engine, devel=devel)
    argv = ["bash", "-c", command]
    code = _call(lambda: commands.run(choices, argv, request=_request(devices, force, print)))
    if code:
        raise Exit(code=code)


@task(help={**_help(*OPTIONS, **DEVEL), **DEVICES})
def shell(
    c: Context,
    target: str = "npu",
    platform: str = "",
    base: str = "",
    python: str = "",
    engine: str = "auto",
    devices: str = "",
    force: bool = False,
    print: str = "",
    devel: bool = False,
) -> None:
    """Open a shell in the image, with the repository, the data and an output folder mounted."""
    from grstack import commands

    choices = _choices(target=target, platform=platform, base=base, python=python, engine=engine, devel=devel)
    code = _call(lambda: commands.run(choices, ["bash"], interactive=True, request=_request(devices, force, print)))
    if code:
        raise Exit(code=code)


SERVED = {
    "port": "of this machine",
    "address": "of this machine that it can be reached at; 0.0.0.0 opens it to others",
    "devices": DEVICES["devices"],
    "force": DEVICES["force"],
}


@task(help={**_help("target", "platform", "base", "python"), **SERVED})
def notebook(
    c: Context,
    target: str = "npu",
    platform: str = "",
    base: str = "",
    python: str = "",
    port: str = "8888",
    address: str = "127.0.0.1",
    devices: str = "",
    force: bool = False,
) -> None:
    """Serve JupyterLab in the image, to who has the token (a new one each time, or JUPYTER_TOKEN), until Ctrl-C."""
    from grstack import commands

    choices = _choices(target=target, platform=platform, base=base, python=python)
    request = _request(devices, force, "")
    code = _call(lambda: commands.notebook(choices, request, port=port, address=address))
    if code:
        raise Exit(code=code)


@task(help={**_help("target", "platform", "base", "python"), **SERVED, "key": "your public key (default: of ~/.ssh)"})
def ssh(
    c: Context,
    target: str = "npu",
    platform: str = "",
    base: str = "",
    python: str = "",
    port: str = "2222",
    address: str = "127.0.0.1",
    key: str = "",
    devices: str = "",
    force: bool = False,
) -> None:
    """Serve SSH in the image, by key alone, for editors that work over it, until Ctrl-C."""
    from grstack import commands

    choices = _choices(target=target, platform=platform, base=base, python=python)
    request = _request(devices, force, "")
    code = _call(lambda: commands.ssh(choices, request, port=port, address=address, key=key))
    if code:
        raise Exit(code=code)


@task(help=_help(*OPTIONS, **DEVEL))
def tag(
    c: Context,
    target: str = "npu",
    platform: str = "",
    base: str = "",
    python: str = "",
    engine: str = "auto",
    devel: bool = False,
) -> None:
    """Make the short name (grstack/npu:twin) this checkout's image, where another checkout has taken it."""
    from grstack import commands

    choices = _choices(target=target, platform=platform, base=base, python=python, engine=engine, devel=devel)
    _call(lambda: commands.tag(choices))


@task(
    help={
        "only": "one lock, for example npu-py3.11-x86_64 or tools",
        "check": "only tell whether one is stale or missing",
    }
)
def lock(c: Context, only: str = "", check: bool = False) -> None:
    """Resolve versions.yaml into locks/: exact wheels with hashes."""
    from grstack import commands

    _call(lambda: commands.lock((only,) if only else (), check=check))


@task(help={"all": "also the fetched wheels and compiled objects", "dry_run": "only show what would be removed"})
def clean(c: Context, all: bool = False, dry_run: bool = False) -> None:
    """Remove what no current plan needs: scratch, old artefacts and images of this user."""
    from grstack import commands

    _call(lambda: commands.clean(everything=all, dry_run=dry_run))


@task(
    positional=[],
    help={
        "renew": "measure again: names by commas, or stale for all that can be measured here",
        "record": "names by commas that were measured on another machine (with --commit)",
        "commit": "the commit whose sources were measured there",
        "json": "print the list as JSON",
    },
)
def evidence(c: Context, renew: str = "", record: str = "", commit: str = "", json: bool = False) -> None:
    """Which committed results are older than the sources that they speak of: inv evidence [--renew stale]."""
    from grstack import commands

    if _call(lambda: commands.evidence(renew=renew, record=record, commit=commit, as_json=json)):
        raise Exit(code=1)


@task(help={"json": "print the findings as JSON"})
def doctor(c: Context, json: bool = False) -> None:
    """Check this machine: engine, disk, memory, NPU driver, CANN, network."""
    from grstack import commands

    code = _call(lambda: commands.doctor(as_json=json))
    if code:
        raise Exit(code=code)


@task(
    positional=[],
    help={
        "hosts": "10.0.0.1,10.0.0.2, or a file with a host a line",
        "devices": "0,2-3 on every host, or all that have an address (default)",
        "from": "a folder with a copy of each host's /etc/hccn.conf, named by the host (default: read over ssh)",
        "out": "the file to write (default: only shown)",
    },
)
def rank_table(c: Context, hosts: str = "", devices: str = "all", from_: str = "", out: str = "") -> None:
    """HCCL's rank table of Atlas A2 hosts, where a cluster wants one: inv rank-table --hosts 10.0.0.1,10.0.0.2."""
    from grstack import commands

    _call(lambda: commands.rank_table(hosts, devices, folder=from_, out=out))


@task(positional=["name"], help={"name": "for example ml-100k", "from": "a file that is already here"})
def fetch_data(c: Context, name: str, from_: str = "") -> None:
    """Fetch a public data set into data/, verified by hash; says so where none is published."""
    from grstack import commands

    _call(lambda: commands.fetch_data(name, from_file=from_))


@task(help={"fix": "let the linters that can repair do so"})
def lint(c: Context, fix: bool = False) -> None:
    """All linters: Python, C++, shell scripts and Dockerfiles."""
    from grstack import commands

    if _call(lambda: commands.lint(fix=fix)):
        raise Exit(code=1)


@task(
    help=_help(
        "engine",
        unit="only the tests that need neither engine nor image",
        changed="only the suites that this branch's changes can touch",
        since="the same, since this commit",
        slow="only the tests marked slow, into benchmarks/results/slow-tests.md; goes on after an interruption",
        gpu="only the tests that need a GPU, by this Python and its PyTorch: python3, or a path (tests/on_gpu.py)",
        only="with --slow: suites, or files of tests, by commas",
        again="with --slow: also those that passed on these sources",
    )
)
def test(
    c: Context,
    unit: bool = False,
    changed: bool = False,
    since: str = "",
    slow: bool = False,
    only: str = "",
    again: bool = False,
    gpu: str = "",
    engine: str = "auto",
) -> None:
    """Linters, then the tests: on the host, in the image, and of the toolchain with the real engine."""
    from grstack import slow as slow_tests
    from grstack import suites

    if gpu:
        sys.exit(_call(lambda: suites.on_gpu(gpu)))
    if slow or only or again:
        code = _call(lambda: slow_tests.run(engine=engine, only=only, again=again))
        sys.exit(code)
    code = _call(lambda: suites.run_all(unit=unit, engine=engine, only_changed=changed, since=since))
    if code:
        sys.exit(code)


@task(
    positional=[],
    help={
        "kind": "what to make: operator",
        "name": "two or more words, for example segment_sum",
        "outside": "a folder outside this repository: a project of its own, with its own torch binding",
        "dry_run": "only show what would be written",
    },
)
def new(c: Context, kind: str = "", name: str = "", outside: str = "", dry_run: bool = False) -> None:
    """Write a working, tested skeleton: inv new operator NAME (docs/develop/operator.md)."""
    from grstack.commands import ROOT
    from grstack.new.command import new as make

    _call(lambda: make(ROOT, kind, name, outside=outside, dry_run=dry_run))


# This file is loaded between invoke's reading of its own options and of the tasks'.
if core := getattr(program, "core", None):
    from grstack.command_line import asked_about, check, copied, spell_out, unknown_task, with_default

    sys.excepthook = _at_the_top
    typed = core.unparsed
    typed[:] = spell_out(typed, {"opp": ("action", "name"), "new": ("kind", "name")})
    every = Collection(*(copied(item) for item in list(globals().values()) if isinstance(item, Task)))
    typed[:] = _call(lambda: with_default(typed, "--print", ("docker", "podman", "compose", "k8s"), every.task_names))
    if about := asked_about(typed, every.task_names):
        program.args.help.value = about
        typed[:] = []
    _call(lambda: check(typed, every, program.initial_context))
    if program.args.dry.value or {"--dry", "-R"} & set(typed):
        raise Exit(
            "error: --dry is invoke's own and keeps nothing from being done\n  next:  inv build-image --dry-run", code=2
        )
    asked = program.args.help.value
    if isinstance(asked, str) and asked not in every.task_names:
        raise Exit(f"error: {unknown_task(asked, every.task_names)}", code=2)
