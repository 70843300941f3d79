// Attention of few rows: scores, their softmax and its product stay in the unified buffer, in the cube's format NZ.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(AttentionRowsTilingData)
TILING_DATA_FIELD_DEF(uint32_t, tmpSize);
TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, scoresTiling);
TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, valuesTiling);
TILING_DATA_FIELD_DEF_STRUCT(SoftMaxTiling, softmaxTilingData);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(AttentionRows, AttentionRowsTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& q = context->GetInputShape(0)->GetOriginShape();
  const int32_t m = q.GetDim(0), k = q.GetDim(1);
  const int32_t n = context->GetInputShape(1)->GetOriginShape().GetDim(1);
  const int32_t width = context->GetInputShape(2)->GetOriginShape().GetDim(1);
  if (m % 16 != 0 || n % 16 != 0) {
    return ge::GRAPH_FAILED;
  }
  using matmul_tiling::CubeFormat;
  using matmul_tiling::DataType;
  using matmul_tiling::TPosition;
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  AttentionRowsTilingData tiling;
  matmul_tiling::MatmulApiTiling scores(platform);
  scores.SetAType(TPosition::GM, CubeFormat::ND, DataType::DT_FLOAT16);
  scores.SetBType(TPosition::GM, CubeFormat::ND, DataType::DT_FLOAT16);
  scores.SetCType(TPosition::VECIN, CubeFormat::NZ, DataType::DT_FLOAT);
  scores.SetShape(m, n, k);
  scores.SetOrgShape(m, n, k);
  scores.SetBufferSpace(-1, -1, -1);
  matmul_tiling::MatmulApiTiling values(platform);
  values.SetAType(TPosition::VECOUT, CubeFormat::NZ, DataType::DT_FLOAT16);
  values.SetBType(TPosition::GM, CubeFormat::ND, DataType::DT_FLOAT16);
  values.SetCType(TPosition::GM, CubeFormat::ND, DataType::DT_FLOAT);
  values.SetShape(m, width, n);
  values.SetOrgShape(m, width, n);
  values.SetBufferSpace(-1, -1, -1);
  if (scores.GetTiling(tiling.scoresTiling) == -1 || values.GetTiling(tiling.valuesTiling) == -1) {
    return ge::GRAPH_FAILED;
  }
  std::vector<int64_t> dims = {m, n};
  ge::Shape srcShape(dims);
  tiling.set_tmpSize(AscendC::GetSoftMaxMinTmpSize(srcShape, sizeof(float), false));
  AscendC::SoftMaxTilingFunc(srcShape, sizeof(float), tiling.get_tmpSize(), tiling.softmaxTilingData);
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize();
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus RowsShape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = {context->GetInputShape(0)->GetDim(0), context->GetInputShape(2)->GetDim(1)};
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class AttentionRows : public OpDef {
 public:
  explicit AttentionRows(const char* name) : OpDef(name) {
    for (const char* input : {"q", "k", "v"}) {
      this->Input(input)
          .ParamType(REQUIRED)
          .DataType({ge::DT_FLOAT16})
          .Format({ge::FORMAT_ND})
          .UnknownShapeFormat({ge::FORMAT_ND});
    }
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->SetInferShape(optiling::RowsShape);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(AttentionRows);

}  // namespace ops
