"""What deploy/slurm/train.sbatch asks of the engine, by stubs of Slurm's commands; test_slurm.py runs a real Slurm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "deploy/slurm/train.sbatch"
STUBS = {
    "scontrol": 'case $* in *hostnames*) echo host-a ;; *) echo "NodeName=host-a NodeAddr=10.0.0.1 Port=1" ;; esac',
    "srun": 'while [[ $1 == --* ]]; do shift; done; SLURM_NODEID=1 exec "$@"',
    "nvidia-smi": "for gpu in 0 1 2 3; do echo GPU $gpu: NVIDIA H100; done",
    "docker": "if [[ $1 == info ]]; then echo '[name=seccomp,profile=default]'; else printf '%s\\n' \"$@\"; fi",
    "podman": "printf '%s\\n' \"$@\"",
    "apptainer": "printf '%s\\n' \"$@\"",
    "id": "echo 1234",
}
IMAGE = "grstack/cuda:cuda"


def engine_call(
    tmp_path: Path, *arguments: str, dev: Path | None = None, stubs: Mapping[str, str] = STUBS, **variables: str
) -> list[str]:
    """The words that the engine gets on one of two nodes. `dev` stands in the place of /dev."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "data").mkdir()
    for name, text in stubs.items():
        (programs / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (programs / name).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "host-[a-b]", "SLURM_JOB_NUM_NODES": "2"}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path), "GRSTACK_IMAGE": IMAGE, **slurm, **variables}
    command = ["bash", str(SCRIPT), *arguments]
    if dev:
        command = ["unshare", "--mount", "sh", "-c", f'mount --bind {dev} /dev && exec "$@"', "sh", *command]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_node_starts_a_process_for_each_gpu(tmp_path: Path) -> None:
    words = engine_call(tmp_path, "--config", "ml-1m", "--device", "cuda")
    image = words.index("grstack/cuda:cuda")
    assert words[words.index("--gpus") + 1] == "all" and words.index("--gpus") < image
    launcher = "torchrun --nnodes 2 --node-rank 1 --nproc-per-node 4 --master-addr 10.0.0.1 --master-port 20007"
    assert " ".join(words[image + 1 :]).startswith(f"{launcher} -m gr_model.train --config ml-1m --device cuda --go-on")


def test_the_container_gets_what_names_the_network_and_nothing_else(tmp_path: Path) -> None:
    network = {"GLOO_SOCKET_IFNAME": "ib0", "NCCL_SOCKET_IFNAME": "ib0", "HCCL_SOCKET_IFNAME": "ib0"}
    others = {"AWS_SECRET_ACCESS_KEY": "x", "NCCLX": "1"}
    words = engine_call(tmp_path, "--device", "cpu", **network, **others, OMP_NUM_THREADS="4")
    given = {words[number + 1] for number, word in enumerate(words) if word == "-e"}
    assert given == {*network, "OMP_NUM_THREADS"}
    assert words.index("OMP_NUM_THREADS") < words.index("grstack/cuda:cuda")


def options(words: list[str], name: str, image: str = IMAGE) -> list[str]:
    """What follows each `name` before the image."""
    place = next(number for number, word in enumerate(words) if word.endswith(image))
    return [words[number + 1] for number, word in enumerate(words[:place]) if word == name]


@pytest.mark.parametrize(
    ("device", "image"),
    [
        ("npu", "grstack/npu:cann"),
        ("npu:0", "grstack/npu:cann"),
        ("cuda", "grstack/cuda:cuda"),
        ("cpu", "grstack/cpu:cpu"),
    ],
)
def test_the_image_is_that_of_the_device(tmp_path: Path, device: str, image: str) -> None:
    words = engine_call(tmp_path, "--device", device, GRSTACK_IMAGE="", GRSTACK_PROCESSES="1")
    assert words[words.index("torchrun") - 1] == image
    assert options(words, "--pull", image) == ["never"]


def test_an_image_that_is_named_may_be_pulled(tmp_path: Path) -> None:
    assert options(engine_call(tmp_path, "--device", "cpu"), "--pull") == ["missing"]


def test_a_folder_of_data_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"GRSTACK_DATA: \S+/absent is no folder\n\s+next:"):
        engine_call(tmp_path, GRSTACK_DATA=str(tmp_path / "absent"))
    assert not (tmp_path / "absent").exists() and not (tmp_path / "runs").exists()


def test_without_a_device_it_is_a_cpu_s(tmp_path: Path) -> None:
    words = engine_call(tmp_path, "--config", "ml-1m", GRSTACK_IMAGE="")
    assert words[words.index("torchrun") - 1] == "grstack/cpu:cpu"


def test_a_device_that_does_not_exist_is_told_before_a_node_is_asked(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="unknown device 'gpu'; valid: npu, cuda, cpu"):
        engine_call(tmp_path, "--device", "gpu")


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """/dev of a host with two NPUs, as files: theirs is group 4321, and everybody may open the management nodes."""
    if os.getuid() != 0:
        pytest.skip("only root may put a folder in the place of /dev")
    place = tmp_path / "dev"
    place.mkdir()
    for name in ("null", "davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc"):
        (place / name).touch()
        (place / name).chmod(0o666)
    for name in ("davinci0", "davinci1"):
        (place / name).chmod(0o660)
        os.chown(place / name, 0, 4321)
    return place


def test_a_user_may_open_the_npus_of_a_node(tmp_path: Path, dev: Path) -> None:
    words = engine_call(tmp_path, "--device", "npu", dev=dev)
    npus, management = ["/dev/davinci0", "/dev/davinci1"], ["/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"]
    assert options(words, "--device") == [*npus, *management]
    assert options(words, "--user") == ["1234:1234"] and options(words, "--group-add") == ["4321"]
    assert options(words, "--ulimit") == ["memlock=-1"]
    assert words[words.index("--nproc-per-node") + 1] == "2"


def test_on_cpus_and_emulated_npus_no_limit_is_raised(tmp_path: Path) -> None:
    for number, device in enumerate(("cpu", "npu")):
        place = tmp_path / str(number)
        place.mkdir()
        words = engine_call(place, "--device", device, GRSTACK_PROCESSES="1")
        assert [options(words, name) for name in ("--ulimit", "--group-add", "--device", "--gpus")] == [[], [], [], []]


def test_docker_pins_memory_for_gpus(tmp_path: Path) -> None:
    assert options(engine_call(tmp_path, "--device", "cuda"), "--ulimit") == ["memlock=-1"]


def test_podman_of_a_user_gets_gpus_by_cdi_and_keeps_the_host_s_groups(tmp_path: Path) -> None:
    words = engine_call(tmp_path, "--device", "cuda", GRSTACK_ENGINE="podman")
    assert options(words, "--device") == ["nvidia.com/gpu=all"] and "--gpus" not in words
    assert options(words, "--userns") == ["keep-id"] and options(words, "--group-add") == ["keep-groups"]
    assert options(words, "--ulimit") == ["host"]


def test_apptainer_gets_the_driver_of_gpus_and_no_option_of_docker(tmp_path: Path) -> None:
    words = engine_call(tmp_path, "--device", "cuda", GRSTACK_ENGINE="apptainer")
    assert words[:2] == ["run", "--nv"] and not {"--gpus", "--device"} & set(words[: words.index("torchrun")])
    assert words[words.index("torchrun") - 1] == f"docker-daemon:{IMAGE}"


@pytest.mark.parametrize(
    "image",
    ["/shared/x.sif", "x.sif", "/shared/sandbox", "docker://registry/a/b:c", "oras://r/x:1", "docker-archive:/s/x.tar"],
)
def test_apptainer_gets_files_and_uris_as_they_are(tmp_path: Path, image: str) -> None:
    words = engine_call(tmp_path, GRSTACK_ENGINE="apptainer", GRSTACK_IMAGE=image)
    assert words[words.index("torchrun") - 1] == image


MIG = "echo 'GPU 0: H100 (UUID: GPU-a)'; echo '  MIG 1g.10gb Device  0: (UUID: MIG-b)'; echo '  MIG 1g.10gb Device  1'"


def test_a_gpu_s_slices_are_no_gpus(tmp_path: Path) -> None:
    words = engine_call(tmp_path, "--device", "cuda", stubs={**STUBS, "nvidia-smi": MIG})
    assert words[words.index("--nproc-per-node") + 1] == "1"


@pytest.mark.parametrize("answer", ["echo 'No devices were found'; exit 6", "exit 127", "exit 0"])
def test_a_node_without_gpus_says_what_to_ask_for(tmp_path: Path, answer: str) -> None:
    with pytest.raises(AssertionError, match="no device of kind cuda(.|\n)*--gpus-per-node"):
        engine_call(tmp_path, "--device", "cuda", stubs={**STUBS, "nvidia-smi": answer})


def test_the_head_of_the_script_shows_how_gpus_are_asked_for() -> None:
    (example,) = [line for line in SCRIPT.read_text().splitlines() if line.startswith("#   sbatch") and "cuda" in line]
    assert "--gpus-per-node" in example


def test_rootless_docker_runs_as_root_who_is_the_user(tmp_path: Path) -> None:
    rootless = STUBS["docker"].replace("profile=default", "profile=default name=rootless")
    words = engine_call(tmp_path, "--device", "cuda", stubs={**STUBS, "docker": rootless})
    assert options(words, "--user") == ["0:0"] and options(words, "--gpus") == ["all"]
    assert options(words, "--ulimit") == [] and options(words, "--group-add") == []


def test_a_user_may_open_the_gpus_of_a_node(tmp_path: Path, dev: Path) -> None:
    for name, group in (("nvidia0", 44), ("nvidiactl", 44), ("nvidia-uvm", 45), ("nvidia-modeset", 46)):
        (dev / name).touch()
        (dev / name).chmod(0o660)
        os.chown(dev / name, 0, group)
    words = engine_call(tmp_path, "--device", "cuda", dev=dev)
    assert options(words, "--group-add") == ["44", "45"] and options(words, "--device") == []
