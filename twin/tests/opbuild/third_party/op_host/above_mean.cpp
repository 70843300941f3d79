// Elements by tensor(i), and a result of bool.
#include "register/op_def_registry.h"
#include "row_tiling.h"
#include "same_shape.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(AboveMean, RowTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const ge::graphStatus status = SplitRows(context, 0.0f);
  if (status != ge::GRAPH_SUCCESS) {
    std::cout << "AboveMean: no tiling" << std::endl;
  }
  return status;
}

}  // namespace optiling

namespace ops {

class AboveMean : public OpDef {
 public:
  explicit AboveMean(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_BOOL, ge::DT_BOOL})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->SetInferShape(ge::SameShape);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(AboveMean);

}  // namespace ops
