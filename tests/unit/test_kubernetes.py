"""deploy/kubernetes: what kustomize makes of it, by the published schemas, and what no manifest may hold.

No package brings Volcano's schema: its Job is checked by what its published definition says of the keys that ours has.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from grstack.launch import kubernetes
from grstack.launch.prepare import prepare
from tests.golden.manifests import FOLDER, OVERLAYS, ROOT, kept, render
from tests.machines import atlas, gpu_host

DEVICES = {"npu": "huawei.com/Ascend910", "ascend-1980": "huawei.com/ascend-1980", "cuda": "nvidia.com/gpu"}
KINDS = ("job", "jobset", "pytorchjob", "volcano")
BETWEEN_HOSTS = [f"{device}-{kind}" for device in ("npu", "ascend-1980") for kind in KINDS[1:]]
RELEASE = "1.32"
# Of the definition of Volcano's Job (batch.volcano.sh/v1alpha1), what ours sets.
VOLCANO = {"schedulerName": str, "queue": str, "minAvailable": int, "maxRetry": int}
VOLCANO_EVENTS = {
    "*",
    "PodPending",
    "PodRunning",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "OutOfSync",
    "CommandIssued",
    "JobUpdated",
    "TaskFailed",
}
SECRET = re.compile(r"password|passwd|token|secret|credential|api_?key", re.IGNORECASE)

with_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl: kustomize is part of it")


def rendered(overlay: str) -> dict[str, Any]:
    """What kustomize makes of an overlay, as kept: tests/golden/test_manifests.py asks that it is true."""
    return read(kept(overlay).read_text(encoding="utf-8"))


def read(text: str) -> dict[str, Any]:
    (document,) = yaml.safe_load_all(text)
    return dict(document)


def pods(document: Any) -> list[dict[str, Any]]:
    """Every pod's spec in a job of any kind."""
    if isinstance(document, list):
        return [pod for item in document for pod in pods(item)]
    if not isinstance(document, dict):
        return []
    return [document] if "containers" in document else [pod for item in document.values() for pod in pods(item)]


def validate(document: dict[str, Any]) -> None:
    """By Kubernetes' own schema; unknown keys are refused."""
    validator = pytest.importorskip("kubernetes_validate", reason="make bootstraps .venv anew from locks/tools-dev.txt")
    validator.validate(document, RELEASE, strict=True)


def as_pod(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}


def test_every_kind_has_an_overlay_for_every_device() -> None:
    assert sorted(f"{device}-{kind}" for device in DEVICES for kind in KINDS) == OVERLAYS


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_by_the_schema(overlay: str) -> None:
    found = pods(rendered(overlay))
    assert len(found) == (2 if overlay.endswith("pytorchjob") else 1)
    for pod in found:
        validate(as_pod(pod))


@pytest.mark.parametrize("device", DEVICES)
def test_jobs_by_the_schema(device: str) -> None:
    validate(rendered(f"{device}-job"))
    (replicated,) = rendered(f"{device}-jobset")["spec"]["replicatedJobs"]
    validate(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}, "spec": replicated["template"]["spec"]}
    )


@pytest.mark.parametrize("device", DEVICES)
def test_a_jobset_by_its_model(device: str) -> None:
    models = pytest.importorskip("kubeflow_trainer_api.models", reason="make bootstraps .venv from locks/tools-dev.txt")
    document = rendered(f"{device}-jobset")
    read = models.JobsetV1alpha2JobSet.from_dict(document).to_dict()
    for key in document["spec"]:
        assert lost(document["spec"][key], read["spec"][key]) == [], key


@pytest.mark.parametrize("device", DEVICES)
def test_a_pytorchjob_by_its_model(device: str) -> None:
    training = pytest.importorskip("kubeflow.training", reason="make bootstraps .venv from locks/tools-dev.txt")
    document = rendered(f"{device}-pytorchjob")
    spec = training.KubeflowOrgV1PyTorchJobSpec
    assert set(document["spec"]) <= set(spec.attribute_map.values())
    assert set(document["spec"]["runPolicy"]) <= set(training.KubeflowOrgV1RunPolicy.attribute_map.values())
    for name, replica in document["spec"]["pytorchReplicaSpecs"].items():
        assert name in ("Master", "Worker")
        assert set(replica) <= set(training.KubeflowOrgV1ReplicaSpec.attribute_map.values())
        containers = replica["template"]["spec"]["containers"]
        assert [container["name"] for container in containers] == ["pytorch"]  # the operator looks for it
        assert replica["template"]["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}
    (count,) = {value(pod, "PET_NPROC_PER_NODE") for pod in pods(document)}
    assert document["spec"]["nprocPerNode"] == count


@pytest.mark.parametrize("device", DEVICES)
def test_a_volcano_job_by_its_published_definition(device: str) -> None:
    spec = rendered(f"{device}-volcano")["spec"]
    for key, kind in VOLCANO.items():
        assert type(spec.pop(key)) is kind, key
    assert all(isinstance(arguments, list) for arguments in spec.pop("plugins").values())
    policies, (task,) = spec.pop("policies"), spec.pop("tasks")
    assert spec == {}
    assert all(set(policy) == {"event", "action"} and policy["event"] in VOLCANO_EVENTS for policy in policies)
    assert {policy["action"] for policy in policies} == {"RestartJob"}
    assert set(task) == {"name", "replicas", "template"} and re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", task["name"])
    assert type(task["replicas"]) is int and set(task["template"]) == {"metadata", "spec"}
    assert rendered(f"{device}-volcano")["spec"]["minAvailable"] == task["replicas"]


def lost(written: Any, read: Any) -> list[str]:
    """What a model did not take over: keys that it does not know."""
    if isinstance(written, dict):
        return [f"{key}.{more}" for key in written for more in lost(written[key], (read or {}).get(key, ...))]
    if isinstance(written, list):
        return [more for one, other in zip(written, read, strict=True) for more in lost(one, other)]
    return [] if read is not ... else [str(written)]


def value(pod: dict[str, Any], name: str) -> str | None:
    (container,) = pod["containers"]
    return next((entry.get("value") for entry in container["env"] if entry["name"] == name), None)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_process_for_each_device(overlay: str) -> None:
    resource = DEVICES[overlay.rpartition("-")[0]]
    for pod in pods(rendered(overlay)):
        (container,) = pod["containers"]
        counts = {container["resources"][part][resource] for part in ("requests", "limits")}
        assert counts == {value(pod, "PET_NPROC_PER_NODE")}
        others = set(DEVICES.values()) - {resource}
        assert not others & set(container["resources"]["limits"])
        device = "cuda" if resource == "nvidia.com/gpu" else "npu"
        assert f"--device={device}" in container["args"]
        assert container["image"].startswith(f"registry.invalid/grstack/{device}:")  # a name that nobody can own


@pytest.mark.parametrize("device", DEVICES)
def test_hosts_meet_at_the_first_one(device: str) -> None:
    jobset = rendered(f"{device}-jobset")
    (replicated,) = jobset["spec"]["replicatedJobs"]
    (pod,) = pods(jobset)
    name = jobset["metadata"]["name"]
    assert value(pod, "PET_NNODES") == str(replicated["template"]["spec"]["completions"])
    assert value(pod, "PET_MASTER_ADDR") == f"{name}-{replicated['name']}-0-0.{name}"
    volcano = rendered(f"{device}-volcano")
    (task,) = volcano["spec"]["tasks"]
    (pod,) = pods(volcano)
    assert value(pod, "PET_NNODES") == str(task["replicas"])
    assert value(pod, "PET_MASTER_ADDR") == f"{name}-{task['name']}-0.{name}"


def test_volcano_s_number_of_a_pod_reaches_torchrun(tmp_path: Path) -> None:
    (pod,) = pods(rendered("cuda-volcano"))
    argv = pod["containers"][0]["args"]
    (tmp_path / "torchrun").write_text('#!/bin/sh\necho "$PET_NODE_RANK $*"\n')
    (tmp_path / "torchrun").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "VC_TASK_INDEX": "1"}
    said = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    assert said.startswith("1 -m gr_model.train --config=ml-1m ")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_may_do_nothing_but_train(overlay: str) -> None:
    """What the pod security standard 'restricted' asks, but for one file of the host; and a root that is read-only."""
    for pod in pods(rendered(overlay)):
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] >= 1000
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True and context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]} and "privileged" not in context
        mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        between_hosts = {"/etc/hccn.conf"} if overlay in BETWEEN_HOSTS else set()
        assert set(mounted) == {"/data", "/out", "/dev/shm", "/tmp", *between_hosts}
        for volume in pod["volumes"]:
            if volume["name"] not in {mounted[path] for path in between_hosts}:
                assert set(volume) & {"emptyDir", "persistentVolumeClaim"}
        shm = next(volume for volume in pod["volumes"] if volume["name"] == mounted["/dev/shm"])
        assert shm["emptyDir"]["medium"] == "Memory"
        assert "command" not in container  # it would go past the image's entry point, which sets up CANN


@pytest.mark.parametrize("overlay", BETWEEN_HOSTS)
def test_hccl_reads_the_host_s_addresses(overlay: str) -> None:
    for pod in pods(rendered(overlay)):
        (volume,) = (volume for volume in pod["volumes"] if "hostPath" in volume)
        assert volume["hostPath"] == {"path": "/etc/hccn.conf", "type": "File"}
        (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if each["name"] == volume["name"])
        assert mount["mountPath"] == "/etc/hccn.conf" and mount["readOnly"] is True


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_job_that_ends_early_goes_on(overlay: str) -> None:
    document = rendered(overlay)
    for pod in pods(document):
        assert pod["terminationGracePeriodSeconds"] >= 60
        args = pod["containers"][0]["args"]
        assert "--go-on" in args and any(word.startswith("train.checkpoint_every=") for word in args)
        assert any(word.startswith("--out=/out/") for word in args)
    again = {"job": "backoffLimit", "jobset": "failurePolicy", "pytorchjob": "runPolicy", "volcano": "maxRetry"}
    assert document["spec"][again[overlay.rpartition("-")[2]]]


def test_no_secret_stands_in_a_file() -> None:
    """Secrets are named; a value beside such a word would be one."""
    files = [file for file in FOLDER.rglob("*") if file.is_file()]
    assert len(files) > 20
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            code = line.partition("#")[0]
            found = SECRET.search(code)
            allowed = ("secretRef:", "imagePullSecrets:", "automountServiceAccountToken: false")
            assert found is None or any(word in code for word in allowed), f"{file}: {line}"


@with_kubectl
def test_the_driver_s_files_of_a_host_are_a_choice(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "kubernetes")
    mine = tmp_path / "kubernetes/mine"
    mine.mkdir()
    listed = "[../base, ../devices/npu, ../devices/npu-host-files, ../devices/npu-between-hosts, ../kinds/jobset]"
    head = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    (mine / "kustomization.yaml").write_text(f"{head}components: {listed}\n")
    document = read(render(mine))
    (pod,) = pods(document)
    validate(as_pod(pod))
    paths = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    assert {"/etc/hccn.conf", "/usr/local/Ascend/driver", "/etc/ascend_install.info"} <= paths
    mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert all(mounts[path]["readOnly"] for path in paths)


@with_kubectl
def test_the_page_s_example_is_a_job(tmp_path: Path) -> None:
    text = (ROOT / "docs/clusters.md").read_text(encoding="utf-8")
    files = re.findall(r"```yaml\n# deploy/kubernetes/(\S+)\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in files] == [
        "mine/storage.yaml",
        "mine/kustomization.yaml",
        "mine/settings/kustomization.yaml",
    ]
    shutil.copytree(FOLDER, tmp_path / "kubernetes")
    for name, content in files:
        file = tmp_path / "kubernetes" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    document = read(render(tmp_path / "kubernetes/mine"))
    (pod,) = pods(document)
    (container,) = pod["containers"]
    assert pod["securityContext"]["supplementalGroups"] == [1001]  # beside, not in the place of, what the base says
    assert pod["securityContext"]["runAsUser"] == 1000 and pod["securityContext"]["runAsNonRoot"] is True
    assert document["kind"] == "JobSet" and container["image"] == "registry.example.com/grstack/npu:cann"
    *claims, loader = yaml.safe_load_all(files[0][1])
    for each in (*claims, loader):
        validate(each)
    assert [claim["metadata"]["name"] for claim in claims] == ["grstack-data", "grstack-runs"]
    (data,) = (volume for volume in loader["spec"]["volumes"] if volume["name"] == "data")
    assert data["persistentVolumeClaim"]["claimName"] == "grstack-data"
    assert loader["spec"]["containers"][0]["image"] == container["image"]
    found = [word.partition("=") for word in container["args"] if "=" in word]
    assert {name: value for name, _, value in found} == {
        "--config": "kuairand-1k",
        "--data-dir": "/data",
        "--out": "/out/kuairand",
        "--progress": "lines",
        "--device": "npu",
        "train.checkpoint_every": "500",
        "train.steps": "20000",
    }
    validate(as_pod(pod))


@pytest.mark.parametrize("kind", ["npu", "cuda"])
def test_a_printed_job_by_the_schema(tmp_path: Path, kind: str) -> None:
    machine = atlas(tmp_path) if kind == "npu" else gpu_host(tmp_path)
    release = "8.3.RC1" if kind == "npu" else "2.8.0"
    access = prepare(kind, "0,1", machine, release=release).access  # type: ignore[arg-type]
    argv = ["bash", "-c", "echo $(date) $HOME: yes"]
    document = yaml.safe_load(kubernetes.document(ROOT, "grstack/x:y", argv, access))
    (pod,) = pods(document)
    assert [word.replace("$$(", "$(") for word in pod["containers"][0]["args"]] == argv
    assert "$$(date)" in pod["containers"][0]["args"][2]  # $(NAME) is Kubernetes' own
    assert pod["containers"][0]["resources"]["limits"][DEVICES[kind]] == "2"
    validate(document)
    # the nodes that the overlay of these devices asks for
    component = yaml.safe_load((FOLDER / "devices" / kind / "kustomization.yaml").read_text())
    steps = {step["path"]: step["value"] for step in yaml.safe_load(component["patches"][0]["patch"])}
    assert pod.get("nodeSelector") == steps.get("/template/spec/nodeSelector")
