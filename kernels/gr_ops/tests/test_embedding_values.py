"""Lookups and steps on generated tables against float64, on the CPU and on the NPU."""

import textwrap
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from embedding_cases import (
    MEAN,
    NONE,
    OPTIMIZERS,
    OUTPUT_DTYPES,
    POOLINGS,
    SUM,
    Module,
    Optimizer,
    Tables,
    aggregate,
    forward,
    random_bags,
    weight_gradient,
)
from hypothesis import given, settings
from hypothesis import strategies as st

DEVICES = ["cpu", "npu:0"]
# Half an ulp of a value up to 1, beside the tolerance of fp32.
ROUNDING = {torch.float32: 0.0, torch.float16: 5e-4, torch.bfloat16: 4e-3}


def compare(actual: torch.Tensor, expected: np.ndarray, dtype: torch.dtype = torch.float32, fp32: float = 1e-5) -> None:
    tolerance = fp32 + ROUNDING[dtype]
    np.testing.assert_allclose(actual.detach().cpu().double().numpy(), expected, atol=tolerance, rtol=tolerance)


def check(
    tables: Tables,
    optimizer: Optimizer,
    device: str,
    pooling: int,
    *,
    batch: int = 5,
    longest: int = 6,
    hot: float = 0.3,
    dtype: torch.dtype = torch.float32,
    out_dtype: torch.dtype = torch.float32,
    weighted: bool = False,
    clip: float | None = None,
    steps: int = 1,
    seed: int = 0,
    index_type: torch.dtype = torch.int64,
    offset_type: torch.dtype = torch.int64,
    fp32: float = 1e-5,
    **options: object,
) -> Module:
    rng = np.random.default_rng(seed)
    weights = torch.from_numpy(rng.uniform(-1, 1, tables.elements)).to(dtype)
    expected = weights.double().numpy().copy()
    before = weights.clone()
    module = Module(tables, optimizer, weights.to(device))
    momentum1, momentum2 = optimizer.states(tables)
    touched = torch.zeros(tables.elements, dtype=torch.bool)
    for iteration in range(1, steps + 1):
        bags, borders = random_bags(rng, tables, batch, longest, hot)
        indices, offsets = (
            torch.from_numpy(bags).to(device, index_type),
            torch.from_numpy(borders).to(device, offset_type),
        )
        factors = rng.uniform(-1, 1, len(bags)).astype(np.float32) if weighted else None
        sample_weights = None if factors is None else torch.from_numpy(factors).to(device).requires_grad_()
        out = module.lookup(
            indices,
            offsets,
            pooling,
            indice_weights=sample_weights,
            output_dtype=OUTPUT_DTYPES[out_dtype],
            gradient_clipping=clip is not None,
            max_gradient=clip or 0.0,
            **options,
        )
        assert out.dtype == out_dtype and out.device == module.weights.device
        # A sum of n terms in fp32 is allowed its rounding: 1e-5 for a hundred of them, times the size of the terms.
        per_row = np.unique(bags, return_counts=True)[1].max(initial=1)
        sums = fp32 * (1 + max(per_row, longest) / 100)
        terms = sums * max(1.0, np.abs(expected).max())
        compare(out, forward(tables, expected, bags, borders, pooling, factors), out_dtype, terms)
        grad = torch.from_numpy(rng.uniform(-1, 1, out.shape)).to(out_dtype)
        out.backward(grad.to(device))
        wide = grad.double().numpy()
        if sample_weights is not None:
            clipped = wide if clip is None else np.clip(wide, -clip, clip)
            compare(sample_weights.grad, weight_gradient(tables, expected, clipped, bags, borders, pooling), fp32=terms)
        gradients = aggregate(tables, wide, bags, borders, pooling, factors, clip)
        optimizer.apply(tables, expected, momentum1, momentum2, gradients, iteration)
        for (_, row), (t, _) in gradients.items():
            touched[tables.position(t, row)] = True
        compare(module.weights, expected, dtype, sums)
        compare(module.momentum1, momentum1, fp32=sums)
        compare(module.momentum2, momentum2, fp32=sums)
        # Each step is judged from the state that it found.
        expected = module.weights.cpu().double().numpy().copy()
        momentum1, momentum2 = (m.cpu().double().numpy().copy() for m in (module.momentum1, module.momentum2))
    assert module.weights.cpu()[~touched].equal(before[~touched])
    return module


@st.composite
def table_sets(draw: st.DrawFn, equal_dims: bool) -> Tables:
    count = draw(st.integers(1, 4))
    rows = draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
    dim = st.sampled_from([1, 3, 4, 8, 17, 64, 128])
    dims = [draw(dim)] * count if equal_dims else draw(st.lists(dim, min_size=count, max_size=count))
    shared = draw(st.lists(st.integers(0, count - 1), max_size=3))
    return Tables(rows, dims, sorted([*range(count), *shared]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_generated(device: str, name: str, pooling: int) -> None:
    @settings(max_examples=100 if device == "cpu" else 40, deadline=None, derandomize=True, database=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        decay = name in ("adam", "rowwise_adagrad")
        optimizer = Optimizer(
            name,
            learning_rate=data.draw(st.sampled_from([0.01, 0.5])),
            # Terms that cancel leave their rounding, 2**-24 or so, and a step divides it by eps: 3e-5 at 1e-3.
            eps=data.draw(st.sampled_from([1e-2, 1e-1])),
            weight_decay=data.draw(st.sampled_from([0.0, 0.05])) if decay else 0.0,
            weight_decay_mode=data.draw(st.sampled_from([0, 1, 2, 5])),
            max_norm=data.draw(st.sampled_from([0.0, 0.7])),
        )
        check(
            data.draw(table_sets(pooling == NONE)),
            optimizer,
            device,
            pooling,
            batch=data.draw(st.sampled_from([0, 1, 3, 17])),
            longest=data.draw(st.sampled_from([0, 1, 5, 40])),
            hot=data.draw(st.sampled_from([0.0, 0.5, 1.0])),
            weighted=pooling != NONE and data.draw(st.booleans()),
            clip=data.draw(st.sampled_from([None, 0.4])),
            seed=data.draw(st.integers(0, 999)),
            steps=2,
            index_type=data.draw(st.sampled_from([torch.int32, torch.int64])),
            offset_type=data.draw(st.sampled_from([torch.int32, torch.int64])),
        )

    run()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("out_dtype", ROUNDING)
@pytest.mark.parametrize("weighted", [False, True])
def test_types(device: str, dtype: torch.dtype, out_dtype: torch.dtype, weighted: bool) -> None:
    types = {"dtype": dtype, "out_dtype": out_dtype}
    for name in OPTIMIZERS:
        for pooling, width in ((SUM, 17), (MEAN, 8), (NONE, 40)):
            if weighted and pooling == NONE:
                continue
            tables, optimizer = Tables([9, 6], [width, width]), Optimizer(name, eps=1e-3)
            check(
                tables, optimizer, device, pooling, **types, weighted=weighted, batch=4, longest=3, steps=1 + weighted
            )


# Ten steps, a row in most bags, features that share a table.
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_follow_each_other(device: str, name: str) -> None:
    check(Tables([30, 5], [8, 4], [0, 1, 0]), Optimizer(name, eps=1e-3, learning_rate=0.05), device, MEAN, steps=10)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_wider_than_the_buffer_of_a_core(device: str, weighted: bool) -> None:
    """Row-wise Adagrad's mean and norm and the gradient of sample weights are sums over several tiles of columns."""
    optimizer = Optimizer("rowwise_adagrad", eps=1e-3, weight_decay=0.05, weight_decay_mode=1, max_norm=2.0)
    check(Tables([7, 3], [5001, 20]), optimizer, device, SUM, weighted=weighted, steps=2, fp32=5e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_zipf_indices_of_a_large_table(device: str) -> None:
    rng = np.random.default_rng(3)
    tables = Tables([100_000], [16])
    bags = np.minimum(rng.zipf(1.2, 4000) - 1, 99_999)
    borders = np.arange(0, 4001, 40)
    weights = rng.uniform(-1, 1, tables.elements)
    expected = weights.astype(np.float32).astype(np.float64)
    module = Module(tables, Optimizer("adagrad", eps=1e-3), torch.from_numpy(expected).float().to(device))
    out = module.lookup(module.tensor(bags), module.tensor(borders), SUM)
    compare(out, forward(tables, expected, bags, borders, SUM), fp32=1e-4)
    grad = rng.uniform(-1, 1, out.shape).astype(np.float32)
    out.backward(module.tensor(grad))
    momentum, none = module.optimizer.states(tables)
    module.optimizer.apply(tables, expected, momentum, none, aggregate(tables, grad, bags, borders, SUM))
    compare(module.weights, expected, fp32=1e-4)
    np.testing.assert_allclose(module.momentum1.cpu().numpy(), momentum, rtol=1e-4, atol=1e-4)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_threads_do_not_change_bits(threads: Callable[[int], None]) -> None:
    results = []
    for count in (1, 3):
        threads(count)
        module = check(Tables([5000], [16]), Optimizer("adam"), "cpu", MEAN, batch=3000, longest=20, fp32=1e-3)
        results.append([module.weights.clone(), module.momentum1.clone(), module.momentum2.clone()])
    assert all(a.equal(b) for a, b in zip(*results))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("pooling", [SUM, MEAN])
def test_few_indices_of_many_rows(name: str, pooling: int) -> None:
    """So many rows that several share the marks that tell which ones occur more than once."""
    tables = Tables([300_000, 70, 90_000], [3, 4, 17], [0, 1, 2, 2])
    check(tables, Optimizer(name, eps=1e-3), "cpu", pooling, batch=4, longest=40, steps=2)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_numbers_of_rows_beyond_32_bits(name: str) -> None:
    tables = Tables([3000, 70], [5, 8], [0, 1, 1])
    keys = torch.tensor([2**40, 2**40 + 3000, 2**40 + 3000, 2**40 + 3070])
    check(tables, Optimizer(name, eps=1e-3), "cpu", SUM, batch=9, longest=40, steps=2, hash_size_cumsum=keys)


@pytest.mark.parametrize("out_dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("pooling", "weighted"), [(SUM, False), (SUM, True), (MEAN, False), (NONE, False)])
def test_many_rows_with_gradients_of_their_own(out_dtype: torch.dtype, pooling: int, weighted: bool) -> None:
    """Hundreds of rows that occur once, with gradients that are scaled or converted before their turn comes."""
    tables, optimizer = Tables([4000, 3000], [20, 20]), Optimizer("adagrad", eps=1e-3)
    check(tables, optimizer, "cpu", pooling, batch=60, longest=20, hot=0.02, out_dtype=out_dtype, weighted=weighted)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("width", [3, 29])  # with every step of a sum over columns
@pytest.mark.parametrize("hot", [False, True])
def test_a_row_in_the_parts_of_several_threads(
    threads: Callable[[int], None], name: str, width: int, hot: bool
) -> None:
    """Repeated only across the border of two parts, or half of all: aggregated once, the same bits on any number."""
    tables = Tables([40_000], [width])
    optimizer = Optimizer(name, eps=1e-3, weight_decay=0.05 if name == "rowwise_adagrad" else 0.0, weight_decay_mode=1)
    count = 24_000 if width > 8 else 36_000  # of less work there would be one part
    bags = np.random.default_rng(5).permutation(40_000)[:count]
    bags[[3, 11_000, count - 10]] = bags[[count - 1, 12_500, 7]]
    if hot:
        bags[::2] = 17
    borders = np.arange(0, count + 1, 30)
    weights = np.random.default_rng(6).uniform(-1, 1, tables.elements).astype(np.float32)
    results = []
    for number in (1, 2, 3):
        threads(number)
        module = Module(tables, optimizer, torch.from_numpy(weights.copy()))
        out = module.lookup(module.tensor(bags), module.tensor(borders), SUM)
        grad = np.random.default_rng(7).uniform(-1, 1, out.shape).astype(np.float32)
        out.backward(module.tensor(grad))
        results.append([module.weights.clone(), module.momentum1.clone(), module.momentum2.clone()])
    expected, states = weights.astype(np.float64), optimizer.states(tables)
    gradients = aggregate(tables, grad.astype(np.float64), bags, borders, SUM)
    optimizer.apply(tables, expected, *states, gradients, 1)
    compare(module.weights, expected, fp32=1e-4)
    compare(module.momentum1, states[0], fp32=1e-3)
    assert all(a.equal(b) and a.equal(c) for a, b, c in zip(*results))


@pytest.mark.parametrize("device", DEVICES)
def test_hints_do_not_change_results(device: str) -> None:
    tables, optimizer = Tables([20], [8]), Optimizer("adagrad")
    plain = check(tables, optimizer, device, SUM)
    module = check(
        tables,
        optimizer,
        device,
        SUM,
        is_experimental=True,
        use_uniq_cache_locations_bwd=True,
        use_homogeneous_placements=True,
        mixed_D=False,
        total_hash_size_bits=0,
        unique_ids=torch.zeros(3, dtype=torch.int64, device=device),
    )
    assert module.weights.equal(plain.weights) and module.momentum1.equal(plain.momentum1)


@pytest.mark.parametrize("device", DEVICES)
def test_gradient_of_weights_where_a_feature_wants_none(device: str) -> None:
    tables = Tables([6, 4], [8, 4])
    rng = np.random.default_rng(4)
    bags, borders = random_bags(rng, tables, 4, 5)
    weights = rng.uniform(-1, 1, tables.elements).astype(np.float32)
    module = Module(tables, Optimizer("sgd"), torch.from_numpy(weights.copy()).to(device))
    factors = torch.ones(len(bags), device=device, requires_grad=True)
    mask = module.tensor(np.array([0, 1], np.int32))
    out = module.lookup(
        module.tensor(bags), module.tensor(borders), SUM, indice_weights=factors, feature_requires_grad=mask
    )
    out.sum().backward()
    expected = weight_gradient(tables, weights, np.ones(out.shape), bags, borders, SUM)
    expected[: borders[4]] = 0
    compare(factors.grad, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_strided_arguments(device: str) -> None:
    tables = Tables([10], [4])
    weights = (torch.arange(40, dtype=torch.float32) / 10).to(device)
    module = Module(tables, Optimizer("sgd", learning_rate=1.0), weights)
    indices = torch.tensor([[1, 0], [3, 0], [5, 0], [1, 0], [9, 0]]).to(device)[:, 0]
    offsets = torch.tensor([0, 7, 3, 7, 5, 7]).to(device)[::2]
    out = module.lookup(indices, offsets, SUM)
    compare(out, np.array([[3.6, 3.9, 4.2, 4.5], [4.0, 4.2, 4.4, 4.6]]))
    out.backward(torch.ones(4, 2).to(device).t())
    compare(module.weights.view(10, 4)[1], np.array([-1.6, -1.5, -1.4, -1.3]))


@pytest.mark.parametrize("capability", ["", "avx2", "generic"])
def test_bags_of_every_width(forked_process, capability: str) -> None:
    """Against torch in float64, on each instruction set: wide rows take several passes, narrow ones are cut up."""
    script = """
        import torch, gr_ops
        torch.manual_seed(0)
        lengths = torch.tensor([0, 1, 3, 40, 0, 70, 2, 1, 1, 55, 0])
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        indices = torch.randint(0, 50, (int(offsets[-1]),))
        factors = torch.randn(len(indices))
        for width in (1, 3, 4, 8, 12, 16, 20, 31, 32, 48, 64, 96, 100, 128, 144, 200, 256, 320):
            starts, dims = torch.tensor([0]), torch.tensor([0, width])
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                table = torch.randn(50, width).to(dtype)
                for mode, code in (("sum", 0), ("mean", 1)):
                    for weights in (None, factors):
                        out = torch.ops.mxrec.embedding_pool(
                            table.flatten(), starts, dims, width, width, None, indices, offsets, code, weights, 0
                        )
                        rows = table.double()[indices] * (1.0 if weights is None else weights.double()[:, None])
                        expected = torch.segment_reduce(rows, mode, lengths=lengths, axis=0, initial=0, unsafe=True)
                        expected = expected.nan_to_num(0.0)  # means of nothing
                        torch.testing.assert_close(out.double(), expected, rtol=2e-6, atol=2e-5)
        print('bags ok')
    """
    result = forked_process(script, MXREC_CPU_CAPABILITY=capability)
    assert result.stdout.strip().endswith("bags ok"), result.stderr


def test_instruction_sets_agree(fresh_process) -> None:
    """Conversions and copies are exact on every instruction set; this process has the processor's best one."""
    script = """
        import sys, torch, gr_ops
        def rows(t, code):
            n = t.numel() // 16
            starts, dims, every, offsets = (torch.tensor(x) for x in ([0], [0, 16], range(n), [0, n]))
            out = torch.ops.mxrec.embedding_pool(t, starts, dims, 16, 16, None, every, offsets, 2, None, code)
            return out.flatten()
        w = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
        finite = w[torch.isfinite(w)].contiguous()
        assert rows(finite, 0).equal(finite.float())
        wide = torch.cat([torch.linspace(-70000, 70000, 5000), torch.linspace(-1e-6, 1e-6, 5000)])
        assert rows(wide, 1).equal(wide.half())
        assert rows(wide, 5).equal(wide.bfloat16())
        print('rows ok')
    """
    exec(compile(textwrap.dedent(script), "rows", "exec"), {})
    for capability in ("generic", "avx2"):
        result = fresh_process(script, MXREC_CPU_CAPABILITY=capability, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        assert result.stdout.strip().endswith("rows ok"), result.stderr
