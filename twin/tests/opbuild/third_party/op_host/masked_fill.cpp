// A mask of bytes (SelectWithBytesMask).
#include "register/op_def_registry.h"
#include "row_tiling.h"
#include "same_shape.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(MaskedFill, RowTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  return SplitRows(context, *context->GetAttrs()->GetFloat(0));
}

}  // namespace optiling

namespace ops {

class MaskedFill : public OpDef {
 public:
  explicit MaskedFill(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Input("mask")
        .ParamType(REQUIRED)
        .DataType({ge::DT_BOOL})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Attr("value").AttrType(OPTIONAL).Float(0);
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(MaskedFill);

}  // namespace ops
