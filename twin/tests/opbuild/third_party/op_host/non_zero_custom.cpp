// How many rows the output has, the kernel knows: OutputShapeDependOnCompute.
#include "register/op_def_registry.h"
#include "row_tiling.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(NonZeroCustom, RowTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) { return SplitRows(context, 0); }

}  // namespace optiling

namespace ge {

static graphStatus AnyRows(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = {-1, 2};
  return GRAPH_SUCCESS;
}

}  // namespace ge

namespace ops {

class NonZeroCustom : public OpDef {
 public:
  explicit NonZeroCustom(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_INT64})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND})
        .OutputShapeDependOnCompute();
    this->SetInferShape(ge::AnyRows);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(NonZeroCustom);

}  // namespace ops
