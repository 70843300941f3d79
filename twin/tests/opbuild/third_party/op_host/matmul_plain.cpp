// A product on one core, of a kernel that declares no type.
#include "register/op_def_registry.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(MatmulPlainTilingData)
TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, cubeTilingData);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(MatmulPlain, MatmulPlainTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& a = context->GetInputShape(0)->GetOriginShape();
  const gert::Shape& b = context->GetInputShape(1)->GetOriginShape();
  const int32_t m = a.GetDim(0), k = a.GetDim(1), n = b.GetDim(1);
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  matmul_tiling::MatmulApiTiling cube(platform);
  cube.SetAType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
  cube.SetBType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
  cube.SetCType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT);
  cube.SetShape(m, n, k);
  cube.SetOrgShape(m, n, k);
  cube.SetBufferSpace(-1, -1, -1);
  MatmulPlainTilingData tiling;
  if (cube.GetTiling(tiling.cubeTilingData) == -1) {
    return ge::GRAPH_FAILED;
  }
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize();
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus ProductShape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = {context->GetInputShape(0)->GetDim(0), context->GetInputShape(1)->GetDim(1)};
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class MatmulPlain : public OpDef {
 public:
  explicit MatmulPlain(const char* name) : OpDef(name) {
    for (const char* input : {"a", "b"}) {
      this->Input(input)
          .ParamType(REQUIRED)
          .DataType({ge::DT_FLOAT16})
          .Format({ge::FORMAT_ND})
          .UnknownShapeFormat({ge::FORMAT_ND});
    }
    this->Output("c")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->SetInferShape(optiling::ProductShape);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(MatmulPlain);

}  // namespace ops
