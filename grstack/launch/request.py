"""What was typed for a run, and what it means for the session's platform: its devices, or text in place of a run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grstack.engines import Mount, docker_cli, names
from grstack.errors import UsageError
from grstack.launch import compose, gpu, kubernetes
from grstack.launch.access import Access, Flavour, Kind, SecurityContext
from grstack.launch.line import shell_line
from grstack.launch.machine import Machine
from grstack.launch.prepare import EXAMPLES, prepare
from grstack.session import Session

FORMS = ("docker", "podman", "compose", "k8s")
KINDS: dict[str, Kind] = {"cann": "npu", "cuda": "cuda"}  # platforms with devices of their own


@dataclass(frozen=True, kw_only=True)
class Request:
    devices: str = ""
    force: bool = False
    form: str = ""  # of FORMS: what to print in place of a run

    def __post_init__(self) -> None:
        if self.form and self.form not in FORMS:
            raise UsageError.unknown("form to print", self.form, FORMS, next_command='inv run "COMMAND" --print')

    @property
    def flavour(self) -> Flavour:
        return "podman" if self.form == "podman" else "docker"


def access_of(s: Session, request: Request, machine: Machine, console: Console) -> Access | None:
    """The devices of this run; None where the platform has none of its own. Says which they are."""
    if not request.form:
        s.check_choices()
    elif s.choices.engine == "none":
        raise UsageError(
            "--print shows what a container engine is given, and with --engine none there is none",
            next_command="the same without --engine",
        )
    kind = KINDS.get(s.platform)
    if kind is None:
        if request.devices not in ("", "none"):
            why = "its NPUs are emulated" if s.platform == "twin" else "it uses no device"
            raise UsageError(
                f"--devices: platform {s.platform} has none of this machine's, {why}",
                next_command=f"{EXAMPLES['npu']}   (a GPU: {EXAMPLES['cuda']})",
            )
        return None
    if request.devices == "none":
        return None
    if kind == "cuda" and not (request.devices or request.form) and gpu.absent(machine):
        say(console, "no GPU and no driver here: the container gets none")
        return None
    packages, platforms = s.target.packages, s.target.platforms
    release = platforms[s.platform].cann if s.platform in platforms else packages["torch"]
    contained = bool(request.form) or s.choices.engine != "none"
    done = prepare(
        kind,
        request.devices,
        machine,
        release=release,
        flavour=request.flavour,
        force=request.force,
        shown=bool(request.form),
        contained=contained,
    )
    notes = list(done.notes)
    if contained and machine.docker.elsewhere:
        notes.append(f"devices were looked at on this machine, and the container engine is on {machine.docker.name}")
    for note in notes:
        say(console, note)
    return done.access


def text_of(
    s: Session,
    request: Request,
    access: Access | None,
    machine: Machine,
    argv: Sequence[str],
    mounts: Sequence[Mount],
    *,
    shell: bool,
) -> str:
    """The command line, or the file, that does the same without `inv`. Says what it needs.

    Nothing printed pulls the image by its short name, which in a public registry may be anybody's.
    """
    image = names.short(s.plan_to_show(with_engine=False))
    volumes = [(mount.source, place(mount), mount.writable) for mount in mounts]
    if request.form == "k8s":
        return kubernetes.document(s.paths.root, f"{kubernetes.REGISTRY}/{image}", argv, access, shell=shell)
    if request.form == "podman":
        say(s.console, f"podman has an image store of its own; next: docker save {image} | podman load")
    _folders(s.console, mounts)
    context = access or SecurityContext.of(machine, request.flavour)
    if request.form == "compose":
        return compose.document(image, argv, volumes, context, shell=shell)
    words = docker_cli.run_argv(
        Path(request.form),
        image=image,
        argv=argv,
        volumes=volumes,
        env={},
        network="host",
        interactive=shell,
        context=context,
    )
    return shell_line([*words[:2], "--pull=never", *words[2:]], image)


def _folders(console: Console, mounts: Sequence[Mount]) -> None:
    """Docker makes a folder that is missing root's, and compose and Podman end."""
    missing = [os.path.relpath(mount.source) for mount in mounts if not mount.source.exists()]
    if missing:
        say(console, f"next: mkdir -p {shlex.join(missing)}   (who starts the container must be able to write there)")


def say(console: Console, note: str) -> None:
    console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)


def place(mount: Mount) -> str:
    """Where a container sees the mount."""
    return f"/{mount.name}"
