"""A run as a Kubernetes Job: the pod and the job of deploy/kubernetes with this command and these devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from grstack.errors import UsageError
from grstack.launch.access import Access
from grstack.launch.yaml_text import dump

FOLDER = Path("deploy/kubernetes")
REGISTRY = "registry.invalid"  # no name of any (RFC 2606): no node can pull from it
RESOURCES = {"npu": "huawei.com/Ascend910", "cuda": "nvidia.com/gpu"}
NODES = {"npu": {"accelerator": "huawei-Ascend910"}}  # labels, as deploy/kubernetes/devices asks for them
FOLDERS = ("/data", "/out")  # claims; a cluster has no other folder of this machine


def document(root: Path, image: str, argv: Sequence[str], access: Access | None, *, shell: bool = False) -> str:
    """The number of devices is that of `access`; which ones they are is the cluster's choice."""
    if shell:
        raise UsageError(
            "a shell is no job: start one in a pod that runs", next_command="kubectl exec -it jobs/gr-train -- bash"
        )
    joined = " ".join(argv)
    if foreign := re.search(r"(?<![\w/.])/(source|locks)\b", joined):
        raise UsageError(
            f"{foreign[0]} is a folder of this machine: a pod has {' and '.join(FOLDERS)}",
            next_command='inv run --print k8s "python -m gr_model.train ..."',
        )
    job: dict[str, Any] = _read(root / FOLDER / "kinds/job/job.yaml")
    pod: dict[str, Any] = _read(root / FOLDER / "base/pod.yaml")["template"]["spec"]
    container = pod["containers"][0]
    container |= {"image": image, "args": [_literal(word) for word in argv]}
    if access:
        resource = RESOURCES[access.kind]
        count = str(len(access.ids))
        container["env"].append({"name": "PET_NPROC_PER_NODE", "value": count})
        container["resources"]["limits"][resource] = count
        container["resources"]["requests"][resource] = count
        pod |= {"nodeSelector": NODES[access.kind]} if access.kind in NODES else {}
    job["spec"]["template"]["spec"] = pod
    head = "# kubectl create -f FILE; claims grstack-data and grstack-runs, secrets: docs/clusters.md\n"
    if image.startswith(f"{REGISTRY}/"):
        head += f"# First push the image to a registry of yours, and put its name in the place of {REGISTRY}.\n"
    return head + dump(job)


def _literal(text: str) -> str:
    """Kubernetes puts variables in the place of $(NAME); a shell would run NAME."""
    return text.replace("$(", "$$(")


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
