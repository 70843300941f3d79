// An input whose value the tiling reads, registered apart from the definition: InputsDataDependency.
#include "length_tiling.h"
#include "register/op_def_registry.h"
#include "register/op_impl_registry.h"
#include "same_shape.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(RollTilingData)
TILING_DATA_FIELD_DEF(uint32_t, length);
TILING_DATA_FIELD_DEF(uint32_t, shift);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(RollCustom, RollTilingData)

static ge::graphStatus TilingRoll(gert::TilingContext* context) {
  const int64_t length = context->GetInputShape(0)->GetStorageShape().GetShapeSize();
  const int32_t* shift = context->GetInputTensor(1)->GetData<int32_t>();
  if (shift == nullptr) {
    return ge::GRAPH_FAILED;
  }
  RollTilingData tiling;
  tiling.set_length(length);
  tiling.set_shift((*shift % length + length) % length);
  return Save(context, tiling, 1);
}

IMPL_OP(RollCustom).InferShape(ge::SameShape).Tiling(TilingRoll).InputsDataDependency({1});

}  // namespace optiling

namespace ops {

class RollCustom : public OpDef {
 public:
  explicit RollCustom(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->Input("shift").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(RollCustom);

}  // namespace ops
