// Mean and variance of rows of any length, a part of 64 elements after the other: the library's Welford functions.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(RowMomentsTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);
TILING_DATA_FIELD_DEF(uint32_t, columns);
TILING_DATA_FIELD_DEF(uint32_t, part);
TILING_DATA_FIELD_DEF(uint32_t, tmpSize);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(RowMoments, RowMomentsTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& x = context->GetInputShape(0)->GetOriginShape();
  const uint32_t typeSize = context->GetInputDesc(0)->GetDataType() == ge::DT_FLOAT ? 4 : 2;
  const uint32_t part = 64;
  uint32_t most = 0;
  uint32_t least = 0;
  uint32_t leastOfEnd = 0;
  AscendC::GetWelfordUpdateMaxMinTmpSize(ge::Shape({1, part}), typeSize, sizeof(float), false, false, most, least);
  AscendC::GetWelfordFinalizeMaxMinTmpSize(ge::Shape({part}), sizeof(float), false, most, leastOfEnd);
  RowMomentsTilingData tiling;
  tiling.set_rows(x.GetDim(0));
  tiling.set_columns(x.GetDim(1));
  tiling.set_part(part);
  tiling.set_tmpSize(least > leastOfEnd ? least : leastOfEnd);
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus MomentShape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = {context->GetInputShape(0)->GetDim(0), 2};
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus MomentType(gert::InferDataTypeContext* context) {
  return context->SetOutputDataType(0, ge::DT_FLOAT);
}

}  // namespace optiling

namespace ops {

class RowMoments : public OpDef {
 public:
  explicit RowMoments(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("moments")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->SetInferShape(optiling::MomentShape);
    this->SetInferDataType(optiling::MomentType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(RowMoments);

}  // namespace ops
