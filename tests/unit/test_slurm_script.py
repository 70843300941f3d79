"""What deploy/slurm/train.sbatch asks of the engine, by stubs of Slurm's commands; test_slurm.py runs a real Slurm."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "deploy/slurm/train.sbatch"
STUBS = {
    "scontrol": 'case $* in *hostnames*) echo host-a ;; *) echo "NodeName=host-a NodeAddr=10.0.0.1 Port=1" ;; esac',
    "srun": 'while [[ $1 == --* ]]; do shift; done; SLURM_NODEID=1 exec "$@"',
    "nvidia-smi": "for gpu in 0 1 2 3; do echo GPU $gpu; done",
    "docker": "printf '%s\\n' \"$@\"",
}


def engine_call(tmp_path: Path, *arguments: str, **variables: str) -> list[str]:
    """The words that docker gets on one of two nodes."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in STUBS.items():
        (programs / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (programs / name).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "host-[a-b]", "SLURM_JOB_NUM_NODES": "2"}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path), "GRSTACK_IMAGE": "grstack/cuda:cuda", **slurm, **variables}
    command = ["bash", str(SCRIPT), *arguments]
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
