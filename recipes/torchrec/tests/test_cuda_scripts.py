"""Scripts written for CUDA, unchanged under the vendor's transfer_to_npu, compute what scripts for NPUs compute."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import forked_ranks
import pytest
import torch
from grid.port import reserved
from test_cpu_unchanged import assert_same

RANKS = 2
TIME_LIMIT = 300  # seconds; without load each kind takes fifteen
PROGRAM = Path(__file__).with_name("cuda_program.py")
NAMES = [
    "train_dlrm",
    "train_dlrm_data_parallel",
    "TrainPipelineBase",
    "TrainPipelineSparseDist",
    "PrefetchTrainPipelineSparseDist",
    "TrainPipelineSemiSync",
    "EvalPipelineSparseDist",
    "composable",
    "shard_without_device",
    "plan_by_hand",
    "warmup",
    "planners",
    "checkpoints",
    "kinds_of_modules",
]


def results(
    kind: str, pythonpath: str, folder: Path, names: list[str] = NAMES, late: int | None = None
) -> dict[str, list[object]]:
    """What each rank computed, by program. `late`: the group is not destroyed, and this rank ends after the other."""
    folder.mkdir()
    path = os.pathsep.join([pythonpath, os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    env.update(MASTER_ADDR="127.0.0.1", WORLD_SIZE=str(RANKS))
    if late is not None:
        env["LATE"] = str(late)
    if "TWIN_LIB64" in os.environ:
        env["LD_LIBRARY_PATH"] = f"{os.environ['TWIN_LIB64']}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    logs = [folder / f"rank{rank}.log" for rank in range(RANKS)]
    argv = [str(PROGRAM), kind, str(folder), *names]
    with reserved() as port:
        env["MASTER_PORT"] = str(port)
        processes = forked_ranks.start("torch", argv, env, [{"RANK": str(n)} for n in range(RANKS)], logs)
        deadline = time.monotonic() + TIME_LIMIT
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    said = "\n".join(log.read_text()[-4000:] for log in logs)
    assert [process.returncode for process in processes] == [0] * RANKS, said
    return {name: [torch.load(folder / f"{name}.{rank}.pt") for rank in range(RANKS)] for name in names}


@pytest.fixture(scope="module")
def for_npu(patched: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    return results("npu", patched, tmp_path_factory.mktemp("for") / "npu")


@pytest.fixture(scope="module")
def for_cuda(patched: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    return results("cuda", patched, tmp_path_factory.mktemp("for") / "cuda")


@pytest.mark.twin
@pytest.mark.npus(RANKS)
@pytest.mark.parametrize("name", NAMES)
def test_cuda_is_the_npu(name: str, for_npu: dict[str, list[object]], for_cuda: dict[str, list[object]]) -> None:
    assert_same(name, for_npu[name], for_cuda[name])


@pytest.mark.twin
@pytest.mark.npus(RANKS)
@pytest.mark.parametrize("late", range(RANKS))
def test_ends_beside_a_rank_that_is_gone(late: int, patched: str, tmp_path: Path) -> None:
    """Upstream's training example leaves collectives of coming batches in its streams and never destroys its group."""
    assert all(
        isinstance(found, dict)
        for found in results("npu", patched, tmp_path / "npu", ["unfinished"], late)["unfinished"]
    )


@pytest.mark.twin
@pytest.mark.npus(RANKS)
def test_hccl_says_npu(for_npu: dict[str, list[object]]) -> None:
    """Planners without a topology in a group of hccl; the same program on gloo plans for the CPU."""
    for found in for_npu["TrainPipelineBase"]:
        assert isinstance(found, dict)
        assert "rank:0/npu:0" in found["plan"] and "rank:1/npu:1" in found["plan"], found["plan"]
    for found in for_npu["planners"]:
        assert isinstance(found, dict)
        assert "'npu': ('npu'" in found["hetero"], found["hetero"]


WHO_SAYS_SO = """
import os, tempfile, torch, torch.distributed as dist
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig
from torchrec.distributed import accelerator
from torchrec.distributed.sharding_plan import apply_to_all, construct_module_sharding_plan, table_wise

def plan(device):
    table = EmbeddingBagConfig(name="t", num_embeddings=4, embedding_dim=4, feature_names=["f"])
    module = EmbeddingBagCollection(tables=[table], device=torch.device(device))
    found = construct_module_sharding_plan(module, apply_to_all(module, table_wise(rank=0)), local_size=1, world_size=1)
    return str(found["t"].sharding_spec.shards[0].placement)

os.environ["LOCAL_WORLD_SIZE"] = "1"
assert torch.npu.is_available()
device, module = accelerator.default_device(), accelerator.default_accelerator()
said = [("nobody", accelerator.default_device_type(), str(device), module.type)]
said += [("tensors", accelerator.default_device_type(tensors=[torch.ones(1), torch.ones(1, device="npu")]))]
said += [("module on meta", plan("meta")), ("module on cpu", plan("cpu")), ("module on npu", plan("npu"))]
for backend in ("gloo", "hccl", "cpu:gloo,npu:hccl"):
    store = f"file://{tempfile.mkdtemp()}/store"
    dist.init_process_group(backend, init_method=store, rank=0, world_size=1)
    said += [(backend, accelerator.default_device_type(), accelerator.default_accelerator().type, plan("meta"))]
    if backend == "gloo":
        other = dist.new_group([0], backend="hccl")
        said += [("hccl beside gloo", accelerator.default_device_type(other), accelerator.default_device_type())]
    dist.destroy_process_group()
print(repr(said))
"""
SAID = [
    ("nobody", "cpu", "cpu", "cuda"),
    ("tensors", "npu"),
    ("module on meta", "rank:0/cpu"),
    ("module on cpu", "rank:0/cpu"),
    ("module on npu", "rank:0/npu:0"),
    ("gloo", "cpu", "cuda", "rank:0/cpu"),
    ("hccl beside gloo", "npu", "cpu"),
    ("hccl", "npu", "npu", "rank:0/npu:0"),
    ("cpu:gloo,npu:hccl", "npu", "npu", "rank:0/npu:0"),
]


@pytest.mark.twin
def test_the_npu_only_where_something_says_so(patched: str) -> None:
    path = os.pathsep.join([patched, os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    done = subprocess.run([sys.executable, "-c", WHO_SAYS_SO], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert eval(done.stdout.strip().splitlines()[-1]) == SAID
