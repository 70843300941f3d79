"""The docker command line: which client to use, and the argument lists. Pure but for `find_client`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from grstack import host
from grstack.ask import ask
from grstack.errors import EngineError
from grstack.launch.access import SecurityContext

# The engine and a client that builds: Ubuntu ships buildx apart from docker.io, Debian 13 the client too.
PACKAGES = ("docker.io", "docker-cli", "docker-buildx")
RPMS = ("docker-ce", "docker-ce-cli", "docker-buildx-plugin")


def install_command() -> str:
    """What to type, with the packages that this machine's distribution has."""
    if host.has_dnf():
        return f"{host.install_command(RPMS)}, of Docker's own package repository (docs.docker.com: Install)"
    return host.install_command(host.apt_knows(PACKAGES) or PACKAGES)


def clients() -> list[Path]:
    """Every `docker` on PATH, in its order."""
    found = [Path(folder) / "docker" for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    return [path for path in dict.fromkeys(found) if os.access(path, os.X_OK)]


def find_client() -> Path:
    """The first client that can build with BuildKit.

    From version 23 on BuildKit needs the buildx plug-in, which a bare client lacks; older clients carry it inside.
    """
    tried: list[str] = []
    for client in clients():
        version = _version(client)
        if version is None:
            continue
        if version < 23 or _has_buildx(client):
            return client
        tried.append(f"{client} (version {version}, without buildx)")
    detail = f"; found {', '.join(tried)}" if tried else ""
    raise EngineError(f"no docker client that can build with BuildKit{detail}", next_command=install_command())


def _version(client: Path) -> int | None:
    match = re.search(r"version (\d+)\.", ask([str(client), "--version"]).output)
    return int(match.group(1)) if match else None


def _has_buildx(client: Path) -> bool:
    return ask([str(client), "buildx", "version"]).code == 0


COMPONENTS = "# components:"


def with_components(dockerfile: str, components: Mapping[str, int | None]) -> str:
    """Puts a line per component, and the limit of its layer in MB, below the line that begins with COMPONENTS.

    Each line mounts its own component only, so that a changed one leaves the layers before it as they are.
    """
    lines = dockerfile.splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith(COMPONENTS))
    run = "RUN --mount=type=bind,source=components/{0},target=/component sh /opt/grstack/bin/install-component {0}\n"
    installs = [(f"# at most {limit} MB\n" if limit else "") + run.format(name) for name, limit in components.items()]
    return "".join([*lines[: place + 1], *installs, *lines[place + 1 :]])


def build_argv(
    client: Path,
    *,
    dockerfile: Path,
    context: Path,
    tag: str,
    args: Mapping[str, str],
    labels: Mapping[str, str],
    secrets: Mapping[str, Path],
    from_environment: Sequence[str] = (),
) -> list[str]:
    """`from_environment` names build arguments whose values stay out of the command line: proxies."""
    argv = [str(client), "build", "--progress=plain", "--network=host", f"--file={dockerfile}", f"--tag={tag}"]
    argv += [f"--build-arg={name}={value}" for name, value in sorted(args.items())]
    argv += [f"--build-arg={name}" for name in sorted(from_environment)]
    argv += [f"--label={name}={value}" for name, value in sorted(labels.items())]
    argv += [f"--secret=id={name},src={path}" for name, path in sorted(secrets.items())]
    return [*argv, str(context)]


def run_argv(
    client: Path,
    *,
    image: str,
    argv: Sequence[str],
    volumes: Sequence[tuple[Path, str, bool]],
    env: Mapping[str, str],
    network: str,
    context: SecurityContext | None = None,
    name: str | None = None,
    hostname: str | None = None,
    labels: Mapping[str, str] | None = None,
    interactive: bool = False,
    terminal: bool = True,
    memory_mib: int = 0,
    inherited: Sequence[str] = (),
) -> list[str]:
    """`terminal`: where there is none, an interactive container reads from a pipe; docker ends where it is asked to.

    `inherited`: variables that the container takes from the client's own environment.
    """
    command = [str(client), "run", "--rm", "--init", f"--network={network}"]
    given = context or SecurityContext()
    command += given.options()
    command += [f"--name={name}"] if name else []
    command += [f"--hostname={hostname}"] if hostname else []
    command += [f"--memory={memory_mib}m", f"--memory-swap={memory_mib}m"] if memory_mib else []
    command += [f"--label={key}={value}" for key, value in sorted((labels or {}).items())]
    command += ["--interactive"] if interactive else []
    command += ["--tty"] if interactive and terminal else []
    command += [f"--volume={source}:{target}{'' if writable else ':ro'}" for source, target, writable in volumes]
    variables = {**given.environment, **env}
    command += [f"--env={key}={value}" for key, value in sorted(variables.items())]
    command += [f"--env={key}" for key in sorted(set(inherited) - variables.keys())]
    return [*command, image, *argv]
