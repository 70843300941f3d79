"""Every operator of the plugin, by its sample: schema, fake kernels, autograd, torch.compile, torch.export."""

import pytest
import torch
from operator_samples import ALONE_IN_MXREC
from samples import ON_THE_CPU_ALONE, SAMPLES, Sample, permutation
from torch.library import opcheck

from conftest import HAS_NPU

SPACES = ["mxrec", "fbgemm"]
# These raise what the NPU has reported; they take no tensor.
REPORTS = {"raise_bounds_violations", "copy_fault_records", "raise_faults"}


def names_of(space: str) -> set[str]:
    every = torch._C._dispatch_get_all_op_names()
    return {name.removeprefix(f"{space}::") for name in every if name.startswith(f"{space}::")} - REPORTS


def overload(space: str, name: str) -> torch._ops.OpOverload:
    packet, _, rest = name.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), rest or "default")


def in_space(space: str) -> list[str]:
    return sorted(SAMPLES) if space == "mxrec" else [name for name in sorted(SAMPLES) if is_in_fbgemm(name)]


def is_in_fbgemm(name: str) -> bool:
    if name in ALONE_IN_MXREC:
        return False
    ours_alone = ("hstu_", "embedding_", "permute_sparse_data_backward", "dense_to_jagged_backward.v1", ".pair")
    return not any(part in name if part == ".pair" else name.startswith(part) for part in ours_alone) and not (
        name.endswith(".v2")  # fbgemm has a default overload, which takes the same lists
    )


PAIRS = [(space, name) for space in SPACES for name in in_space(space)]


def test_no_operator_lacks_a_sample() -> None:
    assert names_of("mxrec") == set(SAMPLES)
    assert set(in_space("fbgemm")) <= names_of("fbgemm")
    assert names_of("mxrec") & names_of("fbgemm") == set(in_space("fbgemm"))


ALL_CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
WITHOUT_AOT = ALL_CHECKS[:3]


def checks_of(space: str, name: str, device: str) -> tuple[str, ...]:
    checks = ALL_CHECKS
    if name.startswith("dense_to_jagged") and "->" in str(overload(space, name)._schema).replace("-> Tensor", "", 1):
        checks = tuple(c for c in checks if c != "test_schema")  # fbgemm's schema does not say that it returns offsets
    if name.startswith("permute_") and not name.endswith("backward"):
        checks = WITHOUT_AOT  # that check sums integers and floats; integers alone are checked below
    if "lookup" in name:
        checks = WITHOUT_AOT  # the backward pass changes the tables: two of them cannot agree
    if device != "cpu":  # these two know CPU and CUDA only
        checks = tuple(c for c in checks if c in ("test_schema", "test_faketensor"))
    return checks


@pytest.mark.parametrize(("space", "name"), PAIRS, ids=[f"{s}::{n}" for s, n in PAIRS])
def test_opcheck(space: str, name: str, device: str) -> None:
    if name in ON_THE_CPU_ALONE and device != "cpu":
        return
    sample = SAMPLES[name](device)
    results = opcheck(overload(space, name), sample.args, sample.kwargs, test_utils=checks_of(space, name, device))
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("known", [True, False], ids=["known size", "size in the data"])
@pytest.mark.parametrize("name", ["permute_2D_sparse_data", "permute_1D_sparse_data"])
def test_permutations_of_integers_through_the_compiler(name: str, known: bool) -> None:
    sample = permutation("cpu", 12 if "2D" in name else 9, torch.int64)
    args = sample.args if known else sample.args[:4]
    utilities = ("test_aot_dispatch_static", "test_aot_dispatch_dynamic")[0 if known else 1 :]
    assert set(opcheck(overload("mxrec", name), args, test_utils=utilities).values()) == {"SUCCESS"}


def plain(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    return [t for v in value for t in plain(v)] if isinstance(value, (list, tuple)) else []


def assert_same(given: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(given) == len(expected)
    for a, b in zip(given, expected):
        assert a.dtype == b.dtype and a.cpu().equal(b.cpu())


class Call(torch.nn.Module):
    def __init__(self, op: torch._ops.OpOverload) -> None:
        super().__init__()
        self.op = op

    def forward(self, *args, **kwargs):
        return self.op(*args, **kwargs)


def without_gradients(sample: Sample) -> Sample:
    for tensor in sample.tensors():
        tensor.requires_grad_(False)
    return sample


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_compile(name: str) -> None:
    """What the operator returns and what it changes in place."""
    torch._dynamo.reset()
    module = Call(overload("mxrec", name))
    eager, compiled = SAMPLES[name]("cpu"), SAMPLES[name]("cpu")
    if name in ON_THE_CPU_ALONE:  # fbgemm's schema says that host_weights changes in place: no leaf with a gradient may
        eager, compiled = without_gradients(eager), without_gradients(compiled)
    expected = plain(module(*eager.args, **eager.kwargs))
    run = torch.compile(module, backend="aot_eager", fullgraph=True)
    assert_same(plain(run(*compiled.args, **compiled.kwargs)), expected)
    assert_same(plain(compiled.tensors()), plain(eager.tensors()))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_export(name: str) -> None:
    module = Call(overload("mxrec", name))
    sample = without_gradients(SAMPLES[name]("cpu"))
    program = torch.export.export(module, sample.args, sample.kwargs)
    eager, exported = (without_gradients(SAMPLES[name]("cpu")) for _ in range(2))
    expected = plain(module(*eager.args, **eager.kwargs))
    assert_same(plain(program.module()(*exported.args, **exported.kwargs)), expected)
    assert_same(plain(exported.tensors()), plain(eager.tensors()))


def test_reports_belong_to_the_npu_library() -> None:
    every = set(torch._C._dispatch_get_all_op_names())
    assert {name for name in REPORTS if f"mxrec::{name}" in every} == (REPORTS if HAS_NPU else set())


# Accepted and not read, or read on the host wherever they are.
UNREAD = ("uvm", "lxu_cache", "placements", "placeholder", "learning_rate_tensor")


@pytest.mark.parametrize("name", [n for n in sorted(SAMPLES) if n not in ON_THE_CPU_ALONE])
def test_every_tensor_belongs_on_one_device(name: str) -> None:
    """One argument after the other stays behind on the CPU: it is named, with where it should be and where it is."""
    if not HAS_NPU:
        return
    op = overload("mxrec", name)
    given = without_gradients(SAMPLES[name]("npu:0"))
    if len(given.tensors()) == 1:
        return  # the operator runs where it is
    arguments = {a.name: value for a, value in zip(op._schema.arguments, given.args)} | given.kwargs
    for argument, value in arguments.items():
        tensors = isinstance(value, list) and all(isinstance(v, torch.Tensor) for v in value)
        if not (tensors or isinstance(value, torch.Tensor)) or any(part in argument for part in UNREAD):
            continue
        left = [v.cpu() for v in value] if tensors else value.cpu()
        with pytest.raises(RuntimeError, match=r"expected [\w\[\] ]+ on (npu:0, got cpu|cpu, got npu:0)"):
            op(**{**arguments, argument: left})
