"""Why a sample fails, and whose cause it is: what is known, by operator, data type and error. Otherwise the error
speaks for itself, and the cause counts as the twin's."""

from __future__ import annotations

import re
from dataclasses import dataclass

TWIN, WHEEL, PYTORCH, DEVICE, ROUNDING = "twin", "torch_npu", "PyTorch", "device", "rounding"
CAUSES = {
    TWIN: "missing or wrong in the twin, or not looked into",
    WHEEL: "torch_npu's own doing: it shows on an NPU too",
    PYTORCH: "a rule of PyTorch's, whatever a device does",
    DEVICE: "refused by the device: its documentation leaves the data type out",
    ROUNDING: "both are right and differ in last bits, as float64 shows: how many samples are close enough depends on "
    "the processor that computed the CPU's results",
}
LEGACY = re.compile(r"working operator name is (\w+)")


@dataclass(frozen=True)
class Rule:
    """`operator`, `dtype` and `check` are matched whole, `error` anywhere."""

    cause: str
    error: str
    text: str
    operator: str = ".*"
    dtype: str = ".*"
    check: str = ".*"

    def holds(self, operator: str, dtype: str, error: str, check: str) -> bool:
        return bool(
            re.fullmatch(self.operator, operator)
            and re.fullmatch(self.dtype, dtype)
            and re.fullmatch(self.check, check)
            and re.search(self.error, error)
        )


INTEGERS, HALVES = "int64|bool", "float16|bfloat16"

RULES = (
    Rule(
        WHEEL,
        "Only c10::MemoryFormat::Contiguous",
        "torch_npu refuses a memory format other than contiguous (channels last) for a new tensor",
    ),
    Rule(
        PYTORCH,
        "mode only supports CPU",
        "PyTorch's `mode` with out= names the devices that it accepts, NPUs are not among them",
    ),
    Rule(
        PYTORCH,
        "DispatchStub: missing kernel for npu",
        "PyTorch's form with out= calls a kernel of its own devices directly, past the dispatcher",
    ),
    Rule(
        PYTORCH,
        "tensor_split expected",
        "PyTorch wants the tensor of indices on the CPU, whatever the device of the input",
    ),
    Rule(
        DEVICE,
        "call aclnn(Inplace)?(Matmul|BatchMatMul|Mm|Addmm|Baddbmm|Addbmm|Addmv|Mv|Dot) failed, error code is 161002",
        "the NPU's matrix unit multiplies floating-point numbers only; torch_npu passes integers on and is refused",
        dtype=INTEGERS,
    ),
    Rule(
        WHEEL,
        "cannot reshape tensor of 0 elements",
        "torch_npu's own matmul reshapes an empty operand to an unknown size",
    ),
    Rule(WHEEL, "logspace only support", "torch_npu's logspace is for float32 and float16 alone"),
    Rule(
        DEVICE,
        r"call aclnn(Max|Avg)Pool\dd\w* failed, error code is 161002",
        "the device pools floating-point numbers only; torch_npu passes integers on",
        dtype=INTEGERS,
    ),
    Rule(
        DEVICE,
        "call aclnnConvolution failed, error code is 161002",
        "the NPU's matrix unit multiplies floating-point numbers only; torch_npu passes integers on and is refused",
        dtype=INTEGERS,
    ),
    Rule(
        WHEEL,
        "SparseCsrnpu|not currently supported on the NPU backend",
        "torch_npu has no such kernel for sparse tensors",
    ),
    Rule(
        WHEEL,
        "dtype torch.float32 instead of torch.float64|has dtype Float but the operation's result requires dtype Double",
        "torch_npu converts to float32 where float64 is asked for, with a warning",
        "double|float_power|to",
    ),
    Rule(
        WHEEL,
        "not close",
        "torch_npu's gradient of a matrix by a batch of matrices reshapes what it should transpose",
        "matmul|__rmatmul__",
        check="backward",
    ),
    Rule(
        PYTORCH,
        r"output with shape \[1?\] doesn't match the broadcast shape",
        "PyTorch's addbmm_ resizes its operand on the CPU, which its own broadcasting forbids",
        "addbmm",
    ),
    Rule(
        WHEEL,
        "dtype torch.float32 instead of|shape \\(0,\\) instead of|expected scalar type (Half|BFloat16) but found Float",
        "torch_npu returns the statistics in float32, and of an empty tensor in another shape",
        "native_layer_norm|native_batch_norm|_native_batch_norm_legit",
    ),
    Rule(
        WHEEL,
        "only supportted contiguous memory format",
        "torch_npu refuses a memory format other than contiguous for its own intermediate tensor",
    ),
    Rule(
        WHEEL,
        "abs does not support automatic differentiation",
        "torch_npu has no gradient for the magnitude of a complex number",
    ),
    Rule(
        DEVICE,
        "call aclnnGather failed, error code is 161002",
        "indices of an empty gather are uint8, which the device does not take",
        "gather",
    ),
    Rule(WHEEL, "instead of torch", "torch_npu gives float32 where `device` is named", "ones_like"),
    Rule(WHEEL, "instead of torch.float32", "torch_npu keeps integers", "logit", INTEGERS),
    Rule(
        WHEEL,
        ".",
        "torch_npu reads the mask as bits packed by its own dropout, the samples give truth values",
        "native_dropout_backward",
    ),
    Rule(
        WHEEL,
        "stft",
        "torch_npu's stft has no gradient for the window",
        "stft",
    ),
    Rule(
        WHEEL,
        "not equal",
        "torch_npu passes `right` on and leaves `side` out: samples of side='right' differ",
        "searchsorted",
    ),
    Rule(
        WHEEL,
        "not close",
        "torch_npu calls aclnnGelu, which has no argument for approximate='tanh'",
        "nn.functional.gelu",
    ),
    Rule(
        WHEEL,
        "torch.int8",
        "torch_npu returns the device's mask in place of indices",
        "nn.functional.max_pool[12]d",
    ),
    Rule(WHEEL, "torch.int32", "torch_npu returns indices of 32 bits", r"nn.functional.(adaptive_)?max_pool3d"),
    Rule(WHEEL, "not close", "torch_npu passes a fractional `correction` as an integer", "(std|var)(_mean)?"),
    Rule(
        WHEEL,
        "NoneType",
        "torch_npu's formula has no gradient for the target",
        "nn.functional.(binary_cross_entropy_with_logits|kl_div)",
    ),
    Rule(
        ROUNDING,
        "not close",
        "statistics in float32, where the CPU rounds in between: closer to float64 than the CPU's "
        "(twin/tests/aten/programs/rounding.py)",
        "nn.functional.(layer|batch|instance)_norm|native_batch_norm|_native_batch_norm_legit|_batch_norm_with_update",
        HALVES,
    ),
    Rule(
        ROUNDING,
        "not close",
        "statistics in float32, where the CPU rounds in between: closer to float64 than the CPU's "
        "(twin/tests/aten/programs/rounding.py)",
        "native_layer_norm",
        HALVES,
        check="backward",
    ),
    Rule(
        ROUNDING,
        "not close",
        "computed in float32 and rounded once: closer to float64 than the CPU's (twin/tests/aten/programs/rounding.py)",
        r"logspace(\..*)?",
        "float16",
    ),
    Rule(
        ROUNDING,
        "not close",
        "computed in float32 and rounded once: closer to float64 than the CPU's (twin/tests/aten/programs/rounding.py)",
        "nn.functional.conv(_transpose)?[12]d",
        HALVES,
    ),
    Rule(
        ROUNDING,
        "not close",
        "another order of additions: closer to float64 than the CPU's (twin/tests/aten/programs/rounding.py)",
        "nn.functional.scaled_dot_product_attention",
        "float32",
    ),
    Rule(
        ROUNDING,
        "not close",
        "torch_npu multiplies by the matrix of a transform, in float32: about as far from float64 as such products are "
        "on the CPU, whose fast transform adds less (twin/tests/aten/programs/rounding.py)",
        r"fft\.(hfft2|rfft2)",
    ),
    Rule(
        ROUNDING,
        "not close",
        "computed in float32 and rounded once: closer to float64 than the CPU's (twin/tests/aten/programs/rounding.py)",
        "matmul|__rmatmul__",
        HALVES,
    ),
    Rule(
        ROUNDING,
        "not close",
        "another order of additions, as PyTorch makes one product of a batch where it wants a gradient: about as far "
        "from float64 as the CPU's (twin/tests/aten/programs/rounding.py)",
        "matmul|__rmatmul__",
        "float32",
    ),
    Rule(
        WHEEL,
        "not close",
        "torch_npu does not write V where it is given as `out` in the order of columns, as `torch.svd` gives it",
        "svd",
        check="out",
    ),
)


def explain(operator: str, dtype: str, error: str, check: str) -> tuple[str, str]:
    """The cause and the reason. `check`: the one that failed."""
    for rule in RULES:
        if rule.holds(operator, dtype, error, check):
            return rule.cause, rule.text
    if legacy := LEGACY.search(error):
        return TWIN, f"torch_npu calls the legacy operator {legacy[1]} here; the twin refuses it, by name"
    return TWIN, error
