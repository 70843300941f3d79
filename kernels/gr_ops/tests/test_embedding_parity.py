"""fbgemm's SplitTableBatchedEmbeddingBagsCodegen on the CPU: as it is, and with our kernels under it."""

import importlib
import runpy
from pathlib import Path

import pytest
import torch
from embedding_cases import OPTIMIZERS, SUM, Module, Optimizer, Tables, forward

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


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fbgemms_own_callers(device: str, name: str) -> None:
    """fbgemm's Python code calls the lookups of its CUDA build by keyword: every name must be there."""
    package = "fbgemm_gpu.split_embedding_codegen_lookup_invokers"
    invoker = importlib.import_module(f"{package}.lookup_{name}")
    types = importlib.import_module(f"{package}.lookup_args")
    ours = Module(Tables([6, 4], [3, 5]), Optimizer(name, eps=1e-3), torch.ones(38, device=device))
    stock = Module(ours.tables, ours.optimizer, torch.ones(38, device=device))
    indices, offsets = ours.tensor([0, 5, 1, 3, 3]), ours.tensor([0, 2, 3, 3, 5])
    empty = torch.empty(0, device=device)
    common = (
        dict.fromkeys(types.CommonArgs._fields)
        | ours.head()
        | {
            "placeholder_autograd_tensor": torch.zeros(0, device=device, requires_grad=True),
            "dev_weights": stock.weights,
            "host_weights": torch.empty(0),
            "uvm_weights": empty,
            "lxu_cache_weights": empty,
            "indices": indices,
            "offsets": offsets,
            "pooling_mode": SUM,
            "output_dtype": 0,
            "lxu_cache_locations": torch.empty(0, dtype=torch.int32, device=device),
            "vbe_metadata": types.VBEMetadata(None, None, None, -1, -1, -1),
            "is_experimental": False,
            "use_uniq_cache_locations_bwd": False,
            "use_homogeneous_placements": True,
        }
    )
    scalars = dict.fromkeys(types.OptimizerArgs._fields, 0) | {
        "stochastic_rounding": False,
        "gradient_clipping": False,
        "max_gradient": 1.0,
        "learning_rate": 0.1,
        "eps": 1e-3,
        "beta1": 0.9,
        "beta2": 0.999,
    }
    momenta = [
        types.Momentum(
            dev=state,
            host=torch.empty(0),
            uvm=empty,
            placements=common["weights_placements"],
            offsets=ours.tensor(ours.optimizer.state_offsets(ours.tables)),
        )
        for state in (stock.momentum1, stock.momentum2)
    ]
    count = {"sgd": 0, "adam": 2}.get(name, 1)
    out = invoker.invoke(types.CommonArgs(**common), types.OptimizerArgs(**scalars), *momenta[:count], iter=1)
    mine = ours.lookup(indices, offsets, SUM)
    assert out.equal(mine) and out.requires_grad
    for result in (out, mine):
        result.sum().backward()
    assert stock.weights.equal(ours.weights) and (stock.weights != 1).any()
    assert stock.momentum1.equal(ours.momentum1) and stock.momentum2.equal(ours.momentum2)
