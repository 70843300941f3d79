// Compares whole repeats, chooses a row's elements, copies whole blocks out: what fills up the last is not written.
#include "register/op_def_registry.h"
#include "row_tiling.h"
#include "same_shape.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(ChooseRows, RowTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) { return SplitRows(context, 0.0f); }

}  // namespace optiling

namespace ops {

class ChooseRows : public OpDef {
 public:
  explicit ChooseRows(const char* name) : OpDef(name) {
    for (const char* input : {"x", "a", "b"}) {
      this->Input(input)
          .ParamType(REQUIRED)
          .DataType({ge::DT_FLOAT})
          .Format({ge::FORMAT_ND})
          .UnknownShapeFormat({ge::FORMAT_ND});
    }
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->SetInferShape(ge::SameShape);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(ChooseRows);

}  // namespace ops
