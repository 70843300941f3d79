"""docs/generated/fbgemm-names.md: what it says is what the dispatcher does."""

from pathlib import Path

import pytest
import torch
from gr_ops.fbgemm import __main__ as names

from conftest import HAS_NPU

PAGE = Path(__file__).resolve().parents[3] / "docs/generated/fbgemm-names.md"
pytestmark = pytest.mark.skipif(not HAS_NPU, reason="needs torch_npu")


def test_the_page_is_what_the_program_prints() -> None:
    assert PAGE.read_text(encoding="utf-8") == names.page(), "python -m gr_ops.fbgemm > docs/generated/fbgemm-names.md"


@pytest.mark.parametrize("kind", [names.ASCEND_C, names.COMPOSITE, names.HOST, names.REFUSED])
def test_a_name_of_each_kind(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([2, 0, 1], device="npu:0")
    call = {
        names.ASCEND_C: lambda: torch.ops.fbgemm.asynchronous_complete_cumsum(x),
        names.COMPOSITE: lambda: torch.ops.fbgemm.invert_permute(x),
        names.HOST: lambda: torch.ops.fbgemm.FloatToFused8BitRowwiseQuantized(x.float().view(3, 1)),
        names.REFUSED: lambda: torch.ops.fbgemm.jagged_hash_size_cumsum(x, x, 1),
    }[kind]
    if kind == names.REFUSED:
        with pytest.raises(NotImplementedError, match="cannot run on NPU tensors"):
            call()
    else:
        assert call().device.type == "npu"
    assert ("CAUTION" in capfd.readouterr().err) == (kind == names.HOST)
    called = {names.ASCEND_C: "asynchronous_complete_cumsum", names.COMPOSITE: "invert_permute"}
    called |= {names.HOST: "FloatToFused8BitRowwiseQuantized", names.REFUSED: "jagged_hash_size_cumsum"}
    assert names.table()[called[kind]] == kind
