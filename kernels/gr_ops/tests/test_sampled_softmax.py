"""The sampled softmax against its definition in float64, token by token; threads, instruction sets, memory.

Blocks are of 64 tokens, parts of a group of 512, vectors of 2 to 16 tokens or elements.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from test_hstu_cpu import instruction_sets, run

EPS = 1e-6
# Of the largest element; 16-bit results are rounded once, from 16-bit inputs that the reference has too.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    tokens: int
    group: int
    negatives: int
    dim: int = 50
    rows: int = 40
    temperature: float = 0.1
    corrected: bool = False
    placed: bool = False  # a third of the places hold no token
    dtype: torch.dtype = torch.float32
    eps: float = EPS

    def tensors(self) -> Tensors:
        generator = torch.Generator().manual_seed(self.tokens + self.dim)

        def drawn(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(self.dtype)

        def ids(*shape: int) -> torch.Tensor:
            return torch.randint(self.rows, shape, generator=generator)

        groups = -(-(self.tokens + self.tokens // 2 if self.placed else self.tokens) // self.group)
        t = {"query": drawn(self.tokens, self.dim), "rows": drawn(self.rows, self.dim) * 3}
        t |= {"targets": ids(self.tokens), "negatives": ids(groups, self.negatives)}
        if self.corrected:
            t["correction"] = torch.randn(groups, self.negatives, generator=generator)
        if self.placed:
            t["place"] = torch.randperm(groups * self.group, generator=generator)[: self.tokens]
        return t

    def numbers(self) -> tuple[int, float, float]:
        return self.group, self.temperature, self.eps


CASES = {
    "one token": Case(1, 1, 1),
    "blocks of tokens": Case(300, 64, 128),
    "a vector less one": Case(15, 15, 17),
    "a vector and one": Case(17, 17, 33),
    "two blocks of one": Case(65, 65, 5),
    "parts of a group": Case(1100, 1100, 9),
    "groups of two blocks": Case(700, 100, 31),
    "places": Case(333, 50, 20, placed=True),
    "places of a large group": Case(1200, 1800, 20, placed=True, corrected=True),
    "corrections": Case(129, 43, 24, corrected=True),
    "no negatives": Case(20, 5, 0),
    "two items": Case(90, 32, 6, rows=2),
    "more rows than are asked for": Case(20, 8, 5, rows=3000),
    "logits of a thousand": Case(100, 32, 40, temperature=1e-3),
    "short rows": Case(70, 32, 40, eps=15.0),
    **{f"dim {dim}": Case(130, 64, 21, dim=dim) for dim in (1, 4, 16, 17, 18, 20, 21, 64, 66, 130, 300)},
    **{str(dtype): Case(200, 64, 50, corrected=True, dtype=dtype) for dtype in TOLERANCE},
    "places in float64": Case(333, 50, 20, dim=67, placed=True, dtype=torch.float64),
}


def definition(case: Case, t: Tensors, number: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.double):
    """-log of the target's share, where negatives that are the target do not count."""
    query, rows = (number(t[name]).requires_grad_() for name in ("query", "rows"))
    unit, table = (F.normalize(x, dim=1, eps=case.eps) for x in (query, rows))
    losses = []
    for i, target in enumerate(t["targets"].tolist()):
        group = (int(t["place"][i]) if "place" in t else i) // case.group
        logits = unit[i] @ table[t["negatives"][group]].T / case.temperature
        if "correction" in t:
            logits = logits + t["correction"][group]
        own = unit[i] @ table[target] / case.temperature
        others = logits[t["negatives"][group] != target]
        losses.append(torch.cat([own[None], others]).logsumexp(0) - own)
    loss = torch.stack(losses).mean()
    return loss.detach(), *torch.autograd.grad(loss, (query, rows))


def call(case: Case, t: Tensors) -> tuple[torch.Tensor, ...]:
    query, rows = (t[name].detach().requires_grad_() for name in ("query", "rows"))
    rest = t["targets"], t["negatives"], t.get("correction"), t.get("place")
    loss = torch.ops.mxrec.sampled_softmax(query, rows, *rest, *case.numbers())
    return loss.detach(), *torch.autograd.grad(loss, (query, rows))


def check(case: Case) -> None:
    t = case.tensors()
    for name, given, wanted in zip(("loss", "query", "rows"), call(case, t), definition(case, t), strict=True):
        # Of a number, or of the terms that cancel: in one dimension gradients are 0, and terms are those of short rows.
        shortest = 1.0 if name == "loss" else max(case.eps, float(t[name].double().norm(dim=1).min()))
        terms = 1e-3 if name == "loss" else 1 / (case.temperature * case.tokens * shortest)
        limit = TOLERANCE[case.dtype] * max(float(wanted.abs().max()), terms)
        # Rounding of logits is that of numbers of 1 / temperature.
        limit *= 1 + 0.1 / case.temperature * (name != "loss" or case.temperature < 0.1)
        assert given.shape == wanted.shape
        assert float((given.double() - wanted).abs().max()) <= limit, (name, case)
    assert call(case, t)[0].dtype == (torch.float64 if case.dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", instruction_sets())
def test_every_instruction_set_agrees_with_the_definition(name: str) -> None:
    script = """
        import gr_ops
        from test_sampled_softmax import CASES, check
        for case in CASES.values():
            check(case)
        print(len(CASES))
    """
    assert run(script, GR_OPS_ISA=name) == f"{len(CASES)}\n"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_numbers_of_threads_give_the_same_bits(dtype: torch.dtype) -> None:
    """Rows that occur hundreds of times, in groups of several parts and of one token."""
    before = torch.get_num_threads()
    for case in (Case(2000, 1500, 60, rows=9, dtype=dtype), Case(500, 1, 3, rows=7, dtype=dtype)):
        t, digests = case.tensors(), set()
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            bits = b"".join(x.flatten().view(torch.uint8).numpy().tobytes() for x in call(case, t))
            digests.add(hashlib.sha256(bits).hexdigest())
        torch.set_num_threads(before)
        assert len(digests) == 1


def test_the_value_is_the_same_without_gradients() -> None:
    case = CASES["corrections"]
    t = case.tensors()
    with torch.no_grad():
        given = torch.ops.mxrec.sampled_softmax(*t.values(), None, *case.numbers())
    assert given.equal(call(case, t)[0]) and not given.requires_grad


def test_the_gradient_of_the_loss_scales_its_gradients() -> None:
    case = CASES["blocks of tokens"]
    t = case.tensors()
    query, rows = t["query"].requires_grad_(), t["rows"].requires_grad_()
    loss = torch.ops.mxrec.sampled_softmax(query, rows, t["targets"], t["negatives"], None, None, *case.numbers())
    found = torch.autograd.grad(loss * -2, (query, rows))
    for given, once in zip(found, call(case, t)[1:], strict=True):
        assert given.equal(once * -2)


@pytest.mark.parametrize("learned", ["query", "rows"])
def test_one_of_both_may_learn(learned: str) -> None:
    case = CASES["places"]
    t = case.tensors()
    expected = dict(zip(("query", "rows"), call(case, t)[1:], strict=True))[learned]
    t[learned].requires_grad_()
    rest = t["targets"], t["negatives"], None, t["place"]
    loss = torch.ops.mxrec.sampled_softmax(t["query"], t["rows"], *rest, *case.numbers())
    assert torch.autograd.grad(loss, t[learned])[0].equal(expected)


def test_inputs_need_not_be_contiguous() -> None:
    case = dataclasses.replace(CASES["corrections"], placed=True)
    t = case.tensors()
    spread = {name: x.repeat_interleave(2, -1)[..., ::2] for name, x in t.items()}
    assert not any(x.is_contiguous() for x in spread.values())
    for given, expected in zip(call(case, spread), call(case, t), strict=True):
        assert given.equal(expected)


def test_negatives_that_are_all_the_target_cost_nothing() -> None:
    query, rows = (torch.randn(n, 4, requires_grad=True) for n in (2, 3))
    targets, negatives = torch.tensor([2, 2]), torch.tensor([[2, 2, 2]])
    loss = torch.ops.mxrec.sampled_softmax(query, rows, targets, negatives, None, None, 2, 0.1, EPS)
    loss.backward()
    assert loss.item() == 0 and not query.grad.any() and not rows.grad.any()


@pytest.mark.parametrize("name", ["query", "rows"])
def test_what_is_not_a_number_is_not_hidden(name: str) -> None:
    case = CASES["blocks of tokens"]
    t = case.tensors()
    t[name][3, 7] = torch.nan
    assert call(case, t)[0].isnan()


def test_second_derivatives_raise() -> None:
    case = CASES["one token"]
    t = case.tensors()
    query = t["query"].requires_grad_()
    loss = torch.ops.mxrec.sampled_softmax(query, t["rows"], t["targets"], t["negatives"], None, None, *case.numbers())
    (grad,) = torch.autograd.grad(loss, query, create_graph=True)
    with pytest.raises(RuntimeError, match="sampled_softmax: double backward is not supported"):
        grad.sum().backward()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": torch.zeros(3)}, "query must be 2-D"),
        ({"query": torch.zeros(3, 4).long()}, "query has an unsupported dtype"),
        ({"rows": torch.zeros(7, 5)}, "rows differs in shape"),
        ({"rows": torch.zeros(7, 4).double()}, "rows differs in dtype"),
        ({"targets": torch.zeros(3)}, "targets has an unsupported dtype; expected int64"),
        ({"targets": torch.zeros(4).long()}, "targets differs in shape"),
        ({"targets": torch.tensor([0, 7, 0])}, "targets holds 7; expected 0 <= id < 7"),
        ({"negatives": torch.tensor([[1, -1], [0, 0]])}, "negatives holds -1; expected 0 <= id < 7"),
        ({"negatives": torch.zeros(1, 2).long()}, r"query has 3 tokens; expected at most G \* group = 2"),
        ({"correction": torch.zeros(2, 3)}, "correction differs in shape"),
        ({"correction": torch.zeros(2, 2).long()}, "correction has an unsupported dtype"),
        ({"place": torch.tensor([0, 1])}, "place differs in shape"),
        ({"place": torch.tensor([0, 1, 4])}, r"place\[2\]=4 out of range; expected 0 to 3"),
        ({"place": torch.tensor([0, 1, 1])}, r"place\[2\]=1 is that of token 1 too"),
        ({"group": 0}, "group must be greater than 0"),
        ({"temperature": 0.0}, "temperature must be greater than 0"),
        ({"eps": -1.0}, "eps must not be negative"),
    ],
)
def test_refuses(change: dict, message: str) -> None:
    arguments = {
        "query": torch.zeros(3, 4),
        "rows": torch.zeros(7, 4),
        "targets": torch.zeros(3).long(),
        "negatives": torch.zeros(2, 2).long(),
        "correction": None,
        "place": None,
        "group": 2,
        "temperature": 1.0,
        "eps": EPS,
    }
    torch.ops.mxrec.sampled_softmax(**arguments)
    with pytest.raises(RuntimeError, match=f"sampled_softmax: {message}"):
        torch.ops.mxrec.sampled_softmax(**arguments | change)


PEAK = """
    import torch, gr_ops
    from pathlib import Path
    from test_sampled_softmax import Case, call

    def resident(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

    torch.set_num_threads(2)
    call(case := Case(64, 64, 2000, dim=16), case.tensors())
    case = Case(16384, 512, 2000, dim=16)
    tensors = case.tensors()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = resident("VmRSS")
    call(case, tensors)
    print((resident("VmHWM") - before) / (16384 * 2000 * 4))
"""


def test_memory_has_no_logits_of_the_batch() -> None:
    """Peak in copies of the logits, 131 MB: gradients of 2,000 negatives of 32 parts are 1/32 of them, a block's logits
    of two threads 1/128."""
    assert float(run(PEAK)) < 0.1
