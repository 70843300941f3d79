"""One fault has one message: the same words from the CPU's kernels and from the NPU's, for every case of the tests of
each operator's arguments."""

import re
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import test_bounds
import test_hstu_validation
import test_permute
import test_rank1
import test_validation

Case = tuple[ModuleType, Callable[[], object]]


def cases() -> Iterator[tuple[str, Case]]:
    """By name; calls put their tensors on their module's DEVICE."""
    for module, found in (
        (test_hstu_validation, test_hstu_validation.CASES),
        (test_validation, test_validation.CASES | test_validation.CHECKED),
        (test_bounds, test_bounds.BAD),
        (test_rank1, test_rank1.BAD),
        (test_permute, test_permute.BAD),
    ):
        for name, (call, _) in found.items():
            yield f"{module.__name__.removeprefix('test_')}: {name}", (module, call)


CASES = dict(cases())


def message(case: Case, device: str, monkeypatch: pytest.MonkeyPatch) -> str:
    module, call = case
    monkeypatch.setattr(module, "DEVICE", device)
    with pytest.raises(RuntimeError) as raised:
        call()
    return str(raised.value).split("\nException raised from")[0]


@pytest.mark.parametrize("name", CASES)
def test_cpu_and_npu_say_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXREC_CHECK", "1")  # contents of device tensors are looked at on request
    on_cpu, on_npu = (message(CASES[name], device, monkeypatch) for device in ("cpu", "npu:0"))
    # The NPU's kernels have no double arithmetic, and say so.
    assert re.sub(r"/float64\b", "", on_cpu) == on_npu.replace("npu:0", "cpu")


# What the contents of tensors on the device are wrong about: looked at with MXREC_CHECK=1 alone, since a look waits.
IN_DEVICE_MEMORY = {
    "hstu_validation": (
        "first offset",
        "decreasing offsets",
        "last offset",
        "counts too large",
        "negative context",
        "negative target",
        "more queries than keys",
        "maxSeqLenK",
        "page out of range",
        "negative page",
        "page offsets",
        "last page",
        "empty last page",
        "target counts disagree",
    ),
    "validation": ("decreasing", "decreasing to jagged", "beyond values", "second level too short", "overflow"),
    "bounds": ("B_offsets that decrease", "B_offsets from another batch"),
    "rank1": ("index too large", "index below zero", "index too large in the gradient"),
    "permute": (
        "index too large",
        "index below zero",
        "negative length",
        "absurd length",
        "values too short",
        "values too long",
        "sum too small",
        "sum too large",
        "gradient of the wrong size",
    ),
}
UNKNOWN_TO_THE_HOST = [f"{module}: {name}" for module, names in IN_DEVICE_MEMORY.items() for name in names]


@pytest.mark.parametrize("name", [name for name in CASES if name not in UNKNOWN_TO_THE_HOST])
def test_what_the_host_knows_is_refused_without_being_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists, shapes, types: on the NPU at once, in the words that the CPU has."""
    monkeypatch.delenv("MXREC_CHECK", raising=False)
    on_cpu, on_npu = (message(CASES[name], device, monkeypatch) for device in ("cpu", "npu:0"))
    assert re.sub(r"/float64\b", "", on_cpu) == on_npu.replace("npu:0", "cpu")


def test_the_list_of_what_the_host_cannot_know_has_no_other_names() -> None:
    assert set(UNKNOWN_TO_THE_HOST) < set(CASES) and len(UNKNOWN_TO_THE_HOST) == len(set(UNKNOWN_TO_THE_HOST))
