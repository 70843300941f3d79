// InitOutput, then single elements by the scalar unit.
#include "length_tiling.h"
#include "register/op_def_registry.h"
#include "same_shape.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(OneHotTilingData)
TILING_DATA_FIELD_DEF(uint32_t, count);
TILING_DATA_FIELD_DEF(uint32_t, depth);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(OneHotCustom, OneHotTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  OneHotTilingData tiling;
  tiling.set_count(context->GetInputShape(0)->GetStorageShape().GetShapeSize());
  tiling.set_depth(*context->GetAttrs()->GetAttrPointer<uint32_t>(0));
  return Save(context, tiling, 1);
}

static ge::graphStatus DepthBehind(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = *context->GetInputShape(0);
  context->GetOutputShape(0)->AppendDim(*context->GetAttrs()->GetInt(0));
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class OneHotCustom : public OpDef {
 public:
  explicit OneHotCustom(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_INT32})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Attr("depth").AttrType(REQUIRED).Int();
    this->SetInferShape(optiling::DepthBehind);

    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(OneHotCustom);

}  // namespace ops
