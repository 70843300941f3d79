"""A run as a file for `docker compose` (the Compose Specification)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grstack.launch.access import SHM_SIZE, Access, SecurityContext
from grstack.launch.yaml_text import dump

Volume = tuple[Path, str, bool]  # source, target, writable


def document(
    image: str,
    argv: Sequence[str],
    volumes: Sequence[Volume],
    context: SecurityContext,
    *,
    shell: bool = False,
) -> str:
    service: dict[str, Any] = {
        "image": image,
        "pull_policy": "never",  # a public registry's image of that name may be anybody's
        "command": [_literal(word) for word in argv],
        "init": True,
        "network_mode": "host",
        "volumes": [_bind(str(source), target, writable) for source, target, writable in volumes],
    }
    if shell:
        service |= {"stdin_open": True, "tty": True}
    service |= _devices(context) if isinstance(context, Access) else {"user": context.user, "shm_size": "1g"}
    if isinstance(context, Access):
        service["volumes"] += [_bind(file, file, False) for file in context.files]
    if context.selinux:
        service["security_opt"] = ["label=disable"]
    # `up` gives a container no terminal
    head = f"# docker compose -f FILE {'run --rm grstack' if shell else 'up --abort-on-container-exit'}\n"
    return head + dump({"services": {"grstack": service}})


def _literal(text: str) -> str:
    """Compose puts variables in the place of $NAME; $$ is a dollar."""
    return text.replace("$", "$$")


def _bind(source: str, target: str, writable: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "bind", "source": _literal(source), "target": target}
    return found if writable else {**found, "read_only": True}


def _devices(access: Access) -> dict[str, Any]:
    found: dict[str, Any] = {
        "user": access.user,
        "shm_size": SHM_SIZE,
        "ulimits": {name: {"soft": value, "hard": value} for name, value in access.ulimits.items()},
    }
    if access.groups:
        found["group_add"] = [str(group) for group in access.groups]
    if access.environment:
        found["environment"] = dict(access.environment)
    if access.runtime:
        found["runtime"] = access.runtime
    if access.nodes or access.cdi:
        found["devices"] = [*(f"{node}:{node}" for node in access.nodes), *access.cdi]
    if access.gpus:
        ids = [str(number) for number in access.ids]
        reserved = {"driver": "nvidia", "device_ids": ids, "capabilities": ["gpu"]}
        found["deploy"] = {"resources": {"reservations": {"devices": [reserved]}}}
    return found
