"""What a container is given to use devices of its host, and the options of Docker and Podman that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Flavour = Literal["docker", "podman"]
Kind = Literal["npu", "cuda"]

# A limit, not a reservation: workers of data loaders and collectives of one host share tensors there.
SHM_SIZE = "16g"
# Bytes. Pinned memory and RDMA are refused by the usual limit of locked memory (64 KiB to 8 MiB).
LOCKED = {"memlock": -1}
ULIMITS = {"stack": 64 << 20}


@dataclass(frozen=True, kw_only=True)
class Access:
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
    rootless: bool = False
    selinux: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """The container's: a user that the image does not know has no home in it."""
        home = {} if self.user.startswith("0:") else {"HOME": "/tmp"}
        return {**self.env, **home}

    @property
    def ulimits(self) -> dict[str, int]:
        return {**self.locked, **ULIMITS}

    def options(self) -> list[str]:
        """Of `docker run` or `podman run`, but for the environment."""
        argv = [f"--shm-size={SHM_SIZE}", f"--user={self.user}"]
        if self.rootless:  # a user may not raise limits, and has groups of devices on the host only
            argv += ["--ulimit=host", "--userns=keep-id", "--group-add=keep-groups"]
        else:
            argv += [f"--ulimit={name}={value}:{value}" for name, value in self.ulimits.items()]
            argv += [f"--group-add={group}" for group in self.groups]
        argv += [f"--runtime={self.runtime}"] if self.runtime else []
        argv += [f"--gpus={self.gpus}"] if self.gpus else []
        argv += [f"--device={name}" for name in (*self.nodes, *self.cdi)]
        argv += [f"--volume={file}:{file}:ro" for file in self.files]
        argv += ["--security-opt=label=disable"] if self.selinux else []
        return argv
