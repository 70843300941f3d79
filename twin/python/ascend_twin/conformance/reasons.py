"""Why a case fails: what is known, by its error or its operator; otherwise the error speaks for itself."""

from __future__ import annotations

import re

from .tally import Row

LEGACY = re.compile(r"working operator name is (\w+)")

# Rules of torch_npu and PyTorch themselves, which hold on a real NPU too.
BY_ERROR: tuple[tuple[str, str], ...] = (
    (
        "Only c10::MemoryFormat::Contiguous",
        "torch_npu refuses a memory format other than contiguous (channels last) for a new tensor",
    ),
    ("mode only supports CPU", "PyTorch's `mode` with out= names the devices that it accepts, NPUs are not among them"),
    (
        "DispatchStub: missing kernel for npu",
        "PyTorch's form with out= calls a kernel of its own devices directly, past the dispatcher",
    ),
    ("tensor_split expected", "PyTorch wants the tensor of indices on the CPU, whatever the device of the input"),
    (
        "call aclnn(Matmul|BatchMatMul|Mm|Addmm|Baddbmm) failed, error code is 161002",
        "the NPU's matrix unit multiplies floating-point numbers only; torch_npu passes integers on and is refused",
    ),
    ("cannot reshape tensor of 0 elements", "torch_npu's own matmul reshapes an empty operand to an unknown size"),
    ("logspace only support", "torch_npu's logspace is for float32 and float16 alone"),
    ("aclnnMaxPool3dWithArgmax failed", "the device pools floating-point numbers only; torch_npu passes integers on"),
    ("SparseCsrnpu|not currently supported on the NPU backend", "torch_npu has no such kernel for sparse tensors"),
)
BY_OPERATOR: tuple[tuple[str, str], ...] = (
    ("double|float_power", "torch_npu converts to float32 where float64 is asked for, with a warning"),
)
# The same, of torch_npu's own aclnn calls: by operator and error.
BY_BOTH: tuple[tuple[str, str, str], ...] = (
    ("searchsorted", "not equal", "torch_npu passes `right` on and leaves `side` out: samples of side='right' differ"),
    ("nn.functional.gelu", "not close", "torch_npu calls aclnnGelu, which has no argument for approximate='tanh'"),
    ("nn.functional.max_pool[12]d", "torch.int8", "torch_npu returns the device's mask in place of indices"),
    ("nn.functional.(adaptive_)?max_pool3d", "torch.int32", "torch_npu returns indices of 32 bits"),
    ("(std|var)(_mean)?", "not close", "torch_npu passes a fractional `correction` as an integer"),
    (
        "nn.functional.(binary_cross_entropy_with_logits|kl_div)",
        "NoneType",
        "torch_npu's formula has no gradient for the target",
    ),
    (
        "nn.functional.layer_norm",
        "not close",
        "the gradient of one number, which is zero, is summed in float32 where the CPU rounds in between",
    ),
)


def reason(row: Row) -> str:
    error = row.error()
    for pattern, text in BY_OPERATOR:
        if re.fullmatch(pattern, row.op):
            return text
    for operator, pattern, text in BY_BOTH:
        if re.fullmatch(operator, row.op) and re.search(pattern, error):
            return text
    for pattern, text in BY_ERROR:
        if re.search(pattern, error):
            return text
    if legacy := LEGACY.search(error):
        return f"torch_npu calls the legacy operator {legacy[1]} here; the twin refuses it, by name"
    return error
