"""fbgemm's SplitTableBatchedEmbeddingBagsCodegen on the CPU: as it is, and with our kernels under it."""

import runpy
from pathlib import Path

import pytest
import torch
from embedding_cases import Optimizer, Tables, forward

SCRIPT = Path(__file__).parent / "embedding_parity.py"


def test_twenty_steps_beside_stock(fresh_process) -> None:
    code = f"""
        import runpy, sys
        sys.path.insert(0, {str(SCRIPT.parent)!r})
        runpy.run_path({str(SCRIPT)!r}, run_name='__main__')
    """
    result = fresh_process(code, MXREC_NO_FBGEMM_OVERRIDE="1")
    assert result.stdout.strip().endswith("parity ok"), result.stdout + result.stderr


def test_the_module_runs_on_our_kernels() -> None:
    """NONE pools as SUM on stock; weight decay and max_norm are ignored there."""
    parts = runpy.run_path(str(SCRIPT))
    module = parts["SplitTableBatchedEmbeddingBagsCodegen"](
        [(20, 8, parts["EmbeddingLocation"].HOST, parts["ComputeDevice"].CPU)],
        optimizer=parts["KINDS"]["rowwise_adagrad"],
        learning_rate=0.1,
        pooling_mode=parts["PoolingMode"].NONE,
    )
    module.init_embedding_weights_uniform(-1, 1)
    weights = module.split_embedding_weights()[0].detach().clone()
    indices, offsets = torch.tensor([3, 1, 3]), torch.tensor([0, 2, 2, 3])
    out = module(indices, offsets)
    assert out.detach().equal(weights[indices])
    expected = forward(Tables([20], [8]), weights.flatten().numpy(), indices.numpy(), offsets.numpy(), 2)
    assert out.tolist() == expected.tolist()
    out.sum().backward()
    row, momentum, _ = Optimizer("rowwise_adagrad").step(weights[3].double().numpy(), 0.0, None, 2.0, 1)
    after = module.split_embedding_weights()[0].detach()
    assert after[3].tolist() == pytest.approx(row.tolist(), abs=1e-6) and momentum == 4.0
    assert after[0].equal(weights[0])
