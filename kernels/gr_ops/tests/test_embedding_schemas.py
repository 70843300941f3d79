"""Registration of the embedding operators: schemas, keys, Meta kernels."""

import pytest
import torch
from embedding_cases import NONE, OPTIMIZERS, SUM, Module, Optimizer, Tables

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
        "placeholder_autograd_tensor",
        "dev_weights",
        "uvm_weights",
        "lxu_cache_weights",
        "weights_placements",
        "weights_offsets",
        "D_offsets",
        "total_D",
        "max_D",
    ]
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


@pytest.mark.parametrize("space", ["fbgemm", "mxrec"])
@pytest.mark.parametrize(("pooling", "shape"), [(SUM, (2, 8)), (NONE, (5, 5))])
def test_meta_shapes(space: str, pooling: int, shape: tuple[int, int]) -> None:
    for name in OPTIMIZERS:
        module = Module(TABLES, Optimizer(name), torch.empty(38, device="meta"), space)
        indices, offsets = (torch.empty(n, dtype=torch.int64, device="meta") for n in (5, 5))
        out = module.lookup(indices, offsets, pooling, output_dtype=1)
        assert out.shape == shape and out.dtype == torch.float16 and out.device.type == "meta"


def test_the_lookup_without_gradients() -> None:
    module = Module(TABLES, Optimizer("adagrad"), torch.ones(38))
    indices, offsets = torch.tensor([0, 5, 1, 3, 3]), torch.tensor([0, 2, 3, 3, 5])
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            out = module.lookup(indices, offsets, SUM)
            assert not out.requires_grad and out.tolist() == [[2, 2, 2, 0, 0, 0, 0, 0], [1, 1, 1, 2, 2, 2, 2, 2]]
