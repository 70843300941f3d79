"""Which header gives which name: what the toolkit's header does not give, ours does not, and what it gives is there.

The table is written from the interface's description, not from our headers.
"""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[2] / "include"

CORE, LIST, PRODUCT = "kernel_operator.h", "kernel_operator_list_tensor_intf.h", "lib/matmul_intf.h"
TYPES = {  # name -> the headers that give it
    **dict.fromkeys(
        (
            "AscendC::GlobalTensor<float>",
            "AscendC::LocalTensor<half>",
            "AscendC::TPipe",
            "AscendC::TQue<AscendC::QuePosition::VECIN, 1>",
            "AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1>",
            "AscendC::TBuf<AscendC::TPosition::VECCALC>",
            "AscendC::DataCopyParams",
            "AscendC::DataCopyExtParams",
            "AscendC::DataCopyPadExtParams<float>",
            "AscendC::UnaryRepeatParams",
            "AscendC::BinaryRepeatParams",
            "AscendC::HardEvent",
            "AscendC::RoundMode",
            "AscendC::CopyRepeatParams",
            "AscendC::BrcbRepeatParams",
            "AscendC::GatherMaskParams",
            "AscendC::GatherRepeatParams",
            "AscendC::MrgSort4Info",
            "AscendC::TransDataTo5HDParams",
            "AscendC::SoftMaxTiling",
            "AscendC::SoftMaxShapeInfo",
            "AscendC::LayerNormTiling",
            "AscendC::RmsNormTiling",
            "AscendC::LayerNormGradTiling",
            "AscendC::LayerNormGradBetaTiling",
            "AscendC::LayerNormGradShapeInfo",
            "AscendC::LayerNormSeparateTiling",
            "AscendC::LayerNormPara",
            "AscendC::LayerNormConfig",
            "AscendC::WelfordUpdateParam",
            "AscendC::WelfordFinalizePara",
            "AscendC::MrgSortSrcList<float>",
            "AscendC::ReduceOrder",
            "AscendC::TQueSync<PIPE_MTE2, PIPE_V>",
            "bfloat16_t",
            "float16_t",
            "float32_t",
            "event_t",
        ),
        {CORE},
    ),
    "AscendC::ListTensorDesc": {LIST},
    "AscendC::TensorDesc<float>": {LIST},
    "TCubeTiling": {PRODUCT},
    "matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, float>": {PRODUCT},
    "MatmulConfig": {PRODUCT},
}
FUNCTIONS = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Max",
    "Min",
    "And",
    "Or",
    "Not",
    "Adds",
    "Muls",
    "Maxs",
    "Mins",
    "Abs",
    "Ln",
    "Exp",
    "Sqrt",
    "Relu",
    "Cast",
    "Rsqrt",
    "Reciprocal",
    "LeakyRelu",
    "ShiftLeft",
    "ShiftRight",
    "Axpy",
    "MulAddDst",
    "FusedMulAdd",
    "Duplicate",
    "CreateVecIndex",
    "ArithProgression",
    "Brcb",
    "Copy",
    "Transpose",
    "GatherMask",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "WholeReduceSum",
    "WholeReduceMax",
    "WholeReduceMin",
    "BlockReduceSum",
    "BlockReduceMax",
    "BlockReduceMin",
    "PairReduceSum",
    "InitGlobalMemory",
    "SetMaskCount",
    "SetMaskNorm",
    "SetVectorMask",
    "ResetMask",
    "DumpTensor",
    "Compare",
    "CompareScalar",
    "Select",
    "GetCmpMask",
    "SetCmpMask",
    "TransDataTo5HD",
    "SoftMax",
    "SimpleSoftMax",
    "SoftmaxFlash",
    "SoftmaxFlashV2",
    "LayerNorm",
    "SoftmaxGrad",
    "SoftmaxGradFront",
    "RmsNorm",
    "LayerNormGrad",
    "LayerNormGradBeta",
    "WelfordUpdate",
    "WelfordFinalize",
    "Gather",
    "DataCopy",
    "DataCopyPad",
    "SetAtomicAdd",
    "SetAtomicMax",
    "SetAtomicMin",
    "SetAtomicType",
    "SetAtomicNone",
    "SetFlag",
    "WaitFlag",
    "PipeBarrier",
    "SyncAll",
    "CrossCoreSetFlag",
    "CrossCoreWaitFlag",
    "DataCacheCleanAndInvalid",
    "DataCachePreload",
    "GetBlockIdx",
    "GetBlockNum",
    "GetSubBlockIdx",
    "GetSubBlockNum",
    "GetTaskRation",
    "GetTaskRatio",
    "GetUserWorkspace",
]
MACROS = [
    "GET_TILING_DATA",
    "GET_TILING_DATA_WITH_STRUCT",
    "GET_TILING_DATA_MEMBER",
    "REGISTER_TILING_DEFAULT",
    "REGISTER_TILING_FOR_TILINGKEY",
    "TILING_KEY_IS",
    "TILING_KEY_VAR",
    "KERNEL_TASK_TYPE",
    "KERNEL_TASK_TYPE_DEFAULT",
    "GM_ADDR",
]
HOST = {
    "register/op_def_registry.h": ("ops::OpDef", "gert::TilingContext", "gert::InferShapeContext", "std::ostream"),
    "register/tilingdata_base.h": ("optiling::TilingDef",),
    "register/op_impl_registry.h": ("gert::TilingParseContext", "gert::TilingContext"),
    "graph/utils/type_utils.h": ("ge::TypeUtils",),
    "platform/platform_info.h": ("fe::PlatformInfoManager", "fe::PlatFormInfos"),
    "tiling/platform/platform_ascendc.h": ("platform_ascendc::PlatformAscendC",),
    "tiling/tiling_api.h": (
        "matmul_tiling::MatmulApiTiling",
        "optiling::TCubeTiling",
        "optiling::SoftMaxTiling",
        "optiling::LayerNormTiling",
        "optiling::RmsNormTiling",
        "optiling::LayerNormGradTiling",
        "optiling::LayerNormGradBetaTiling",
        "optiling::LayerNormSeparateTiling",
        "optiling::TilingDef",
        "ge::Shape",
    ),
    "graph/tensor.h": ("ge::Shape",),
}
HOST_ONLY = {  # what a host header does not give: another must be included
    "register/op_def_registry.h": ("optiling::TilingDef", "matmul_tiling::MatmulApiTiling", "optiling::TCubeTiling"),
    "register/op_impl_registry.h": ("ops::OpDef", "optiling::TilingDef", "matmul_tiling::MatmulApiTiling"),
    "graph/utils/type_utils.h": ("ops::OpDef", "gert::TilingContext"),
    "register/tilingdata_base.h": ("platform_ascendc::PlatformAscendC", "matmul_tiling::MatmulApiTiling"),
    "tiling/platform/platform_ascendc.h": ("ops::OpDef", "optiling::TilingDef", "matmul_tiling::MatmulApiTiling"),
}


GIVEN = {header: [f"{name} *probe{i};" for i, name in enumerate(names)] for header, names in HOST.items()} | {
    header: [f"{name} *probe{i};" for i, (name, by) in enumerate(TYPES.items()) if header in by]
    for header in (CORE, LIST, PRODUCT)
}
GIVEN[CORE] += [f"using AscendC::{name};" for name in FUNCTIONS]
GIVEN[CORE] += [f"#ifndef {name}\n#error {name} is missing\n#endif" for name in MACROS]
GIVEN[PRODUCT] += ["using AscendC::Matmul;", "#ifndef REGIST_MATMUL_OBJ\n#error REGIST_MATMUL_OBJ is missing\n#endif"]
# The core's header gives neither lists nor products, those two not each other. Whether they give the core's names is
# not said, so it is not asked.
WITHHELD = [(header, name) for header, names in HOST_ONLY.items() for name in names]
WITHHELD += [
    (header, name) for header in (CORE, LIST, PRODUCT) for name, by in TYPES.items() if not by & {CORE, header}
]


def compile_probe(header: str, code: str) -> str:
    """What the compiler says against a program of one include and `code`."""
    command = ["g++", "-std=c++17", "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"]
    done = subprocess.run(command, input=f'#include "{header}"\n{code}\n', capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("header", GIVEN)
def test_a_header_gives_what_the_toolkits_gives(header: str) -> None:
    assert compile_probe(header, "\n".join(GIVEN[header])) == ""


def test_and_no_more() -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda probe: compile_probe(probe[0], f"{probe[1]} *probe;"), WITHHELD))
    given = [probe for probe, text in zip(WITHHELD, said, strict=True) if not text]
    assert not given


def test_the_class_and_the_macro_of_products_come_with_their_header() -> None:
    assert "Matmul" in compile_probe(CORE, "using AscendC::Matmul;")
    assert "is missing" in compile_probe(CORE, "#ifndef REGIST_MATMUL_OBJ\n#error it is missing\n#endif")
