// Named as a function of the C library; asks for the size of its data type.
#include "graph/utils/type_utils.h"
#include "length_tiling.h"
#include "platform/platform_info.h"
#include "register/op_def_registry.h"
#include "same_shape.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(Exp, LengthTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  uint32_t bytes = 0;
  if (!ge::TypeUtils::GetDataTypeLength(context->GetInputDesc(0)->GetDataType(), bytes)) {
    return ge::GRAPH_FAILED;
  }
  return SplitLength(context, bytes == 2 ? 20 : 40);
}

}  // namespace optiling

namespace ops {

class Exp : public OpDef {
 public:
  explicit Exp(const char* name) : OpDef(name) {
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
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(Exp);

}  // namespace ops
