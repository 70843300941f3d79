"""Which container engine is meant: the one that the command `docker` reaches, so that the SDK speaks to no other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

OWN_SOCKETS = ("", "unix:///var/run/docker.sock", "unix:///run/docker.sock")
JOIN_GROUP = "sudo usermod -aG docker $USER, then log in again"
DEFAULT = "default"  # the context that stands for OWN_SOCKETS


@dataclass(frozen=True)
class Endpoint:
    """An engine that the user has chosen, which is not the one that a build could start here."""

    host: str
    chosen_by: str  # DOCKER_HOST, or a context of the docker command line
    undo: str  # what to type so that it is this machine's own again


def endpoint() -> Endpoint | None:
    """By DOCKER_HOST, else by DOCKER_CONTEXT, else by `docker context use`: the order that the command line has."""
    import docker.errors

    if os.environ.get("DOCKER_HOST"):
        host = os.environ["DOCKER_HOST"].strip()
        return None if host in OWN_SOCKETS else Endpoint(host, "DOCKER_HOST", "unset DOCKER_HOST")
    name = _context()
    try:
        host = "" if name == DEFAULT else str(_load(name).Host or "")
    except docker.errors.DockerException:
        host = f"context {name}"
    undo = "unset DOCKER_CONTEXT" if os.environ.get("DOCKER_CONTEXT") else f"docker context use {DEFAULT}"
    return None if host in OWN_SOCKETS else Endpoint(host, f"docker context {name}", undo)


def connect(timeout: int) -> Any:
    """The SDK's client; `timeout`: seconds of a call. Raises DockerException where no engine answers."""
    import docker

    if os.environ.get("DOCKER_HOST") or _context() == DEFAULT:
        return docker.from_env(timeout=timeout)
    context = _load(_context())
    tls = {"tls": context.TLSConfig} if context.TLSConfig else {}
    return docker.DockerClient(base_url=context.Host, timeout=timeout, **tls)


def is_closed(error: BaseException) -> bool:
    """Whether an engine's socket is there, and not open to this user. The SDK wraps what the system said."""
    found, left = set(), [error]
    while left:
        one = left.pop()
        if isinstance(one, PermissionError):
            return True
        if id(one) not in found:
            found.add(id(one))
            left += [e for e in (one.__cause__, one.__context__, *one.args) if isinstance(e, BaseException)]
    return False


def _context() -> str:
    from docker.context.config import get_current_context_name

    return os.environ.get("DOCKER_CONTEXT") or str(get_current_context_name() or DEFAULT)


def _load(name: str) -> Any:
    import docker.context
    import docker.errors

    found = docker.context.ContextAPI.get_context(name)
    if found is None:
        raise docker.errors.ContextNotFound(name)
    return found
