// Scalar reads of vector results that count on the compiler's waits.
#include "register/op_def_registry.h"
#include "row_tiling.h"
#include "same_shape.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(LogSumExp, RowTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) { return SplitRows(context, 1e-5f); }

}  // namespace optiling

namespace ops {

class LogSumExp : public OpDef {
 public:
  explicit LogSumExp(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->SetInferShape(ge::RowShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(LogSumExp);

}  // namespace ops
