// A result of no dimensions; an attribute that is text.
#include <cstring>

#include "length_tiling.h"
#include "register/op_def_registry.h"
#include "same_shape.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(LossTilingData)
TILING_DATA_FIELD_DEF(uint32_t, totalLength);
TILING_DATA_FIELD_DEF(float, factor);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(MseLossCustom, LossTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  LossTilingData tiling;
  tiling.set_totalLength(context->GetInputShape(0)->GetStorageShape().GetShapeSize());
  const bool mean = std::strcmp(context->GetAttrs()->GetAttrPointer<char>(0), "mean") == 0;
  tiling.set_factor(mean ? 1.0f / tiling.get_totalLength() : 1.0f);
  return Save(context, tiling, 1);
}

static ge::graphStatus NoDimensions(gert::InferShapeContext* context) {
  context->GetOutputShape(0)->SetScalar();
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class MseLossCustom : public OpDef {
 public:
  explicit MseLossCustom(const char* name) : OpDef(name) {
    this->Input("predict")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Input("label")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Attr("reduction").AttrType(OPTIONAL).String("mean");
    this->SetInferShape(optiling::NoDimensions);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(MseLossCustom);

}  // namespace ops
