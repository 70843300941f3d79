// Mean and 1 / deviation of rows: the library's LayerNorm without weights, of which its rows are not asked for.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(RowDeviationsTilingData)
TILING_DATA_FIELD_DEF(float, epsilon);
TILING_DATA_FIELD_DEF(uint32_t, padded);
TILING_DATA_FIELD_DEF_STRUCT(LayerNormSeparateTiling, layernormTilingData);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(RowDeviations, RowDeviationsTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& x = context->GetInputShape(0)->GetOriginShape();
  const uint32_t typeSize = context->GetInputDesc(0)->GetDataType() == ge::DT_FLOAT ? 4 : 2;
  const uint32_t block = 32 / typeSize;
  std::vector<int64_t> dims = {x.GetDim(0), x.GetDim(1)};
  ge::Shape srcShape(dims);
  uint32_t most = 0;
  uint32_t least = 0;
  AscendC::GetLayerNormMaxMinTmpSize(srcShape, typeSize, false, true, false, most, least);
  RowDeviationsTilingData tiling;
  AscendC::GetLayerNormNDTilingInfo(srcShape, least, typeSize, false, true, tiling.layernormTilingData);
  tiling.set_epsilon(*context->GetAttrs()->GetFloat(0));
  tiling.set_padded((x.GetDim(1) + block - 1) / block * block);
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus MomentShape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = {2, context->GetInputShape(0)->GetDim(0)};
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus MomentType(gert::InferDataTypeContext* context) {
  return context->SetOutputDataType(0, ge::DT_FLOAT);
}

}  // namespace optiling

namespace ops {

class RowDeviations : public OpDef {
 public:
  explicit RowDeviations(const char* name) : OpDef(name) {
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
    this->Attr("epsilon").AttrType(OPTIONAL).Float(1e-5f);
    this->SetInferShape(optiling::MomentShape);
    this->SetInferDataType(optiling::MomentType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(RowDeviations);

}  // namespace ops
