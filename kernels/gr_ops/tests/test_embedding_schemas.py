"""Registration of the embedding operators (spec/operators.md 6.2): schemas, keys, Meta kernels, opcheck, compiler."""

import pytest
import torch
from embedding_cases import MEAN, NONE, OPTIMIZERS, SUM, Module, Optimizer, Tables

FORWARD = "split_embedding_codegen_forward_unweighted_cuda"
LOOKUPS = [f"split_embedding_codegen_lookup_{name}_function" for name in OPTIMIZERS]
BACKWARDS = [f"split_embedding_backward_codegen_{name}_unweighted_exact_cuda" for name in OPTIMIZERS]
TABLES = Tables([6, 4], [3, 5])


@pytest.mark.parametrize("name", [FORWARD, *LOOKUPS, *BACKWARDS])
def test_both_namespaces_have_one_schema(name: str) -> None:
    schemas = [getattr(getattr(torch.ops, space), name).default._schema for space in ("fbgemm", "mxrec")]
    texts = [str(schema).split("::", 1)[1] for schema in schemas]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("space", ["fbgemm", "mxrec"])
def test_keys(space: str) -> None:
    has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    for name in LOOKUPS:
        for key in ("CPU", "PrivateUse1", "Meta", "AutogradCPU", "AutogradPrivateUse1"):
            assert has(f"{space}::{name}", key), (name, key)
        for key in ("CPU", "Meta", "AutogradCPU"):
            assert has(f"{space}::{name}_cpu", key), (name, key)
    for name in (FORWARD, *BACKWARDS):
        for key in ("CPU", "PrivateUse1", "Meta"):
            assert has(f"{space}::{name}", key), (name, key)


# Names and order of fbgemm's CUDA build: its Python code calls by these names.
def test_arguments_of_the_lookups() -> None:
    names = [
        argument.name
        for argument in torch.ops.fbgemm.split_embedding_codegen_lookup_adam_function.default._schema.arguments
    ]
    assert names[:9] == [
        "placeholder_autograd_tensor", "dev_weights", "uvm_weights", "lxu_cache_weights", "weights_placements",
        "weights_offsets", "D_offsets", "total_D", "max_D",
    ]  # fmt: skip
    assert names[names.index("learning_rate") :][:6] == [
        "learning_rate",
        "eps",
        "beta1",
        "beta2",
        "weight_decay",
        "iter",
    ]
    assert names[-5:] == ["hash_indices", "unique_ids", "unique_offsets", "unique_inverse", "is_dynamic"]
    adagrad = torch.ops.fbgemm.split_embedding_codegen_lookup_adagrad_function.default._schema
    names = [argument.name for argument in adagrad.arguments]
    assert names.index("iter") == names.index("prev_iter_dev") + 1
    assert next(a for a in adagrad.arguments if a.name == "mixed_D").default_value is True


def arguments(device: str, pooling: int, weighted: bool = False) -> tuple[object, ...]:
    dims = [4, 4] if pooling == NONE else [3, 5]
    module = Module(
        Tables([6, 4], dims), Optimizer("sgd"), torch.rand(sum(a * b for a, b in zip([6, 4], dims))).to(device)
    )
    head = module.head()
    indices, offsets = torch.tensor([0, 5, 1, 3, 3]).to(device), torch.tensor([0, 2, 3, 3, 5]).to(device)
    weights = torch.rand(5).to(device) if weighted else None
    return (module.weights, head["weights_offsets"], head["D_offsets"], sum(dims), max(dims), head["hash_size_cumsum"],
            indices, offsets, pooling, weights, 0)  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
@pytest.mark.parametrize("pooling", [SUM, MEAN, NONE])
def test_opcheck_of_the_functional_operators(device: str, pooling: int) -> None:
    checks = ("test_schema", "test_faketensor")
    sample = arguments(device, pooling, weighted=pooling != NONE)
    torch.library.opcheck(torch.ops.mxrec.embedding_pool.default, sample, test_utils=checks)
    weights, starts, dims, total, widest, _, indices, offsets, _, _, _ = sample
    empty, locations = torch.empty(0).to(device), torch.empty(0, dtype=torch.int32).to(device)
    placements = torch.zeros(2, dtype=torch.int32).to(device)
    sample = (weights, empty, empty, placements, starts, dims, total, widest, indices, offsets, pooling, locations,
              locations, 0, False)  # fmt: skip
    torch.library.opcheck(getattr(torch.ops.mxrec, FORWARD).default, sample, test_utils=checks)


@pytest.mark.parametrize("device", ["cpu", "npu:0"])
def test_opcheck_of_the_update(device: str) -> None:
    weights, starts, dims, _, widest, keys, indices, offsets, _, factors, _ = arguments(device, SUM, weighted=True)
    state = torch.zeros_like(weights)
    sample = (torch.rand(2, 8).to(device), weights, starts, dims, widest, keys, 4, indices, offsets, SUM, factors, None,
              True, -1.0, 1, state, starts, None, None, 0.1, 1e-8)  # fmt: skip
    torch.library.opcheck(
        torch.ops.mxrec.embedding_update.default, sample, test_utils=("test_schema", "test_faketensor")
    )


@pytest.mark.parametrize("space", ["fbgemm", "mxrec"])
@pytest.mark.parametrize(("pooling", "shape"), [(SUM, (2, 8)), (NONE, (5, 5))])
def test_meta_shapes(space: str, pooling: int, shape: tuple[int, int]) -> None:
    for name in OPTIMIZERS:
        module = Module(TABLES, Optimizer(name), torch.empty(38, device="meta"), space)
        indices, offsets = (torch.empty(n, dtype=torch.int64, device="meta") for n in (5, 5))
        out = module.lookup(indices, offsets, pooling, output_dtype=1)
        assert out.shape == shape and out.dtype == torch.float16 and out.device.type == "meta"


def test_the_lookup_on_fake_tensors_and_without_gradients() -> None:
    module = Module(TABLES, Optimizer("adagrad"), torch.ones(38))
    indices, offsets = torch.tensor([0, 5, 1, 3, 3]), torch.tensor([0, 2, 3, 3, 5])
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            out = module.lookup(indices, offsets, SUM)
            assert not out.requires_grad and out.tolist() == [[2, 2, 2, 0, 0, 0, 0, 0], [1, 1, 1, 2, 2, 2, 2, 2]]
    host = Module(TABLES, Optimizer("adagrad"), torch.ones(38), host=True)
    host.weights.requires_grad_(False)
    assert not torch.ops.mxrec.embedding_pool(*arguments("cpu", SUM)).requires_grad


def test_pool_compiles() -> None:
    sample = arguments("cpu", MEAN)
    compiled = torch.compile(torch.ops.mxrec.embedding_pool.default, fullgraph=True, backend="aot_eager")
    assert compiled(*sample).equal(torch.ops.mxrec.embedding_pool(*sample))
