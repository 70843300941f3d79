"""The examples of the README run."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from sharded_data import make_batch
from sharded_model import hash_model
from sharded_program import specs

README = Path(__file__).resolve().parents[2] / "README.md"


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_unsharded_example(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(examples()[0], str(README), "exec"), {})
    assert capsys.readouterr().out == "3 rows\n"


def test_sharded_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = hash_model("bags", specs("adam"), torch.device("meta"))
        batches = [make_batch(step, 0, 1, 8, every_row=True, static=False) for step in range(4)]
        names = {
            "model": model,
            "device": torch.device("cpu"),
            "batches": iter(batches),
            "dense_optimizer": torch.optim.SGD(model.over.parameters(), lr=0.1),
        }
        with pytest.raises(StopIteration):
            exec(compile(examples()[1], str(README), "exec"), names)
        table = names["model"].module.sparse.embedding_bags["t0"].parts[0].table
        assert table.updates == len(batches)
        assert names["output"].shape == batches[0].target.shape
    finally:
        time.sleep(0.2)  # gloo frees the last tensors under the GIL, which its destructor holds
        dist.destroy_process_group()
