// Compares into the mask register, and a selection by it.
#include "length_tiling.h"
#include "register/op_def_registry.h"
#include "same_shape.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(HardShrinkTilingData)
TILING_DATA_FIELD_DEF(uint32_t, totalLength);
TILING_DATA_FIELD_DEF(uint32_t, perCore);
TILING_DATA_FIELD_DEF(uint32_t, tileLength);
TILING_DATA_FIELD_DEF(float, lambd);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(HardShrinkCustom, HardShrinkTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  HardShrinkTilingData tiling;
  tiling.set_totalLength(context->GetInputShape(0)->GetOriginShape().GetShapeSize());
  tiling.set_perCore(tiling.get_totalLength());
  tiling.set_tileLength(1024);
  tiling.set_lambd(*context->GetAttrs()->GetFloat(0));
  return Save(context, tiling, 1);
}

}  // namespace optiling

namespace ops {

class HardShrinkCustom : public OpDef {
 public:
  explicit HardShrinkCustom(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Attr("lambd").AttrType(OPTIONAL).Float(0.5f);
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(HardShrinkCustom);

}  // namespace ops
