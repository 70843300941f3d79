"""What a container is given of its host, devices above all, and the options of Docker and Podman that say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from grstack.launch.machine import Machine

Flavour = Literal["docker", "podman"]
Kind = Literal["npu", "cuda"]

# A limit, not a reservation: workers of data loaders and collectives of one host share tensors there.
SHM_SIZE = "16g"
# Bytes. Pinned memory and RDMA are refused by the usual limit of locked memory (64 KiB to 8 MiB).
LOCKED = {"memlock": -1}
ULIMITS = {"stack": 64 << 20}


@dataclass(frozen=True, kw_only=True)
class SecurityContext:
    """As whom a container runs, and whether it may read what is mounted. It writes as who starts it."""

    user: str = ""  # empty: the image's own
    keep_id: bool = False  # Podman of a user: else their number in the container is somebody else's here
    selinux: bool = False

    @classmethod
    def of(cls, machine: Machine, flavour: Flavour) -> SecurityContext:
        return cls(
            user="0:0" if mapped(machine, flavour) else f"{machine.uid}:{machine.gid}",
            keep_id=flavour == "podman" and machine.uid != 0,
            selinux=machine.selinux,
        )

    @property
    def environment(self) -> dict[str, str]:
        return {}

    def options(self) -> list[str]:
        """Of `docker run` or `podman run`, but for the environment."""
        return ["--shm-size=1g", *self._bounds()]

    def _bounds(self) -> list[str]:
        argv = [f"--user={self.user}"] if self.user else []
        argv += ["--userns=keep-id"] if self.keep_id else []
        argv += ["--security-opt=label=disable"] if self.selinux else []
        return argv


def mapped(machine: Machine, flavour: Flavour) -> bool:
    """Whether the user is root in the container: rootless Docker has no other way to write as them."""
    return flavour == "docker" and machine.docker.rootless


@dataclass(frozen=True, kw_only=True)
class Access(SecurityContext):
    """`ids` are the host's numbers: N of /dev/davinciN, the index of nvidia-smi."""

    kind: Kind
    flavour: Flavour
    ids: tuple[int, ...]
    nodes: tuple[str, ...] = ()  # device nodes, under their own names
    files: tuple[str, ...] = ()  # the driver's, read-only under their own names
    cdi: tuple[str, ...] = ()  # names of the Container Device Interface
    gpus: str = ""  # for docker's --gpus
    runtime: str = ""  # an OCI runtime that brings the devices
    env: Mapping[str, str] = field(default_factory=dict)
    process_env: Mapping[str, str] = field(default_factory=dict)  # where there is no container
    user: str = "0:0"
    groups: tuple[int, ...] = ()  # that own the device nodes
    locked: Mapping[str, int] = field(default_factory=lambda: dict(LOCKED))  # empty: the engine may not raise it

    @classmethod
    def with_bounds(
        cls,
        machine: Machine,
        kind: Kind,
        flavour: Flavour,
        ids: tuple[int, ...],
        *,
        opened: Iterable[str],
        elsewhere: bool,
        process_env: Mapping[str, str],
    ) -> Access:
        """What devices of both kinds have in common. `opened`: the nodes that the user opens in the container;
        `elsewhere`: the line is for a machine that has the devices, unlike this one."""
        given = SecurityContext.of(machine, flavour)
        bound = mapped(machine, flavour)  # a user may raise no limit, and has no group of the host
        return cls(
            kind=kind,
            flavour=flavour,
            ids=ids,
            process_env=process_env,
            user=given.user,
            keep_id=given.keep_id,
            selinux=given.selinux,
            groups=() if bound else machine.groups_of(machine.those(opened)),
            locked=LOCKED if not bound and (elsewhere or machine.raises_limits) else {},
        )

    @property
    def environment(self) -> dict[str, str]:
        """The container's: a user that the image does not know has no home in it."""
        home = {} if self.user.startswith("0:") else {"HOME": "/tmp"}
        return {**self.env, **home}

    @property
    def ulimits(self) -> dict[str, int]:
        return {**self.locked, **ULIMITS}

    def options(self) -> list[str]:
        argv = [f"--shm-size={SHM_SIZE}", *self._bounds()]
        if self.keep_id:  # a user may not raise limits, and has groups of devices on the host only
            argv += ["--ulimit=host", "--group-add=keep-groups"]
        else:
            argv += [f"--ulimit={name}={value}:{value}" for name, value in self.ulimits.items()]
            argv += [f"--group-add={group}" for group in self.groups]
        argv += [f"--runtime={self.runtime}"] if self.runtime else []
        argv += [f"--gpus={self.gpus}"] if self.gpus else []
        argv += [f"--device={name}" for name in (*self.nodes, *self.cdi)]
        argv += [f"--volume={file}:{file}:ro" for file in self.files]
        return argv
