// Integer attributes read as int32.
#include "length_tiling.h"
#include "register/op_def_registry.h"
#include "same_shape.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ShiftTilingData)
TILING_DATA_FIELD_DEF(uint32_t, totalLength);
TILING_DATA_FIELD_DEF(uint32_t, perCore);
TILING_DATA_FIELD_DEF(uint32_t, tileLength);
TILING_DATA_FIELD_DEF(int32_t, left);
TILING_DATA_FIELD_DEF(int32_t, right);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(BitShift, ShiftTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  ShiftTilingData tiling;
  tiling.set_totalLength(context->GetInputShape(0)->GetStorageShape().GetShapeSize());
  tiling.set_perCore(tiling.get_totalLength());
  tiling.set_tileLength(512);
  tiling.set_left(*context->GetAttrs()->GetAttrPointer<int32_t>(0));
  tiling.set_right(*context->GetAttrs()->GetAttrPointer<int32_t>(1));
  return Save(context, tiling, 1);
}

}  // namespace optiling

namespace ops {

class BitShift : public OpDef {
 public:
  explicit BitShift(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_INT32})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_INT32})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Attr("left").AttrType(OPTIONAL).Int(0);
    this->Attr("right").AttrType(OPTIONAL).Int(0);
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(BitShift);

}  // namespace ops
