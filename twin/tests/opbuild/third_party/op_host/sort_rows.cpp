// Rows in descending order: Sort and Extract of the library layer.
#include "register/op_def_registry.h"
#include "row_tiling.h"
#include "same_shape.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(SortRows, RowTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) { return SplitRows(context, 0); }

}  // namespace optiling

namespace ops {

class SortRows : public OpDef {
 public:
  explicit SortRows(const char* name) : OpDef(name) {
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
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(SortRows);

}  // namespace ops
