// An input and an output of one name: the tensor is updated in its place.
#include "length_tiling.h"
#include "register/op_def_registry.h"
#include "same_shape.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(AxpyTilingData)
TILING_DATA_FIELD_DEF(uint32_t, length);
TILING_DATA_FIELD_DEF(float, alpha);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(AxpyInPlace, AxpyTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  AxpyTilingData tiling;
  tiling.set_length(context->GetInputShape(0)->GetStorageShape().GetShapeSize());
  tiling.set_alpha(*context->GetAttrs()->GetFloat(0));
  return Save(context, tiling, 1);
}

}  // namespace optiling

namespace ops {

class AxpyInPlace : public OpDef {
 public:
  explicit AxpyInPlace(const char* name) : OpDef(name) {
    this->Input("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND})
        .AutoContiguous();
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND})
        .AutoContiguous();
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Attr("alpha").AttrType(OPTIONAL).Float(1.0);
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(AxpyInPlace);

}  // namespace ops
