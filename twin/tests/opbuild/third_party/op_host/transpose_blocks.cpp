// Sixteen rows become columns: TransDataTo5HD.
#include "register/op_def_registry.h"
#include "row_tiling.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(TransposeBlocks, RowTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) { return SplitRows(context, 0); }

static ge::graphStatus Swapped(gert::InferShapeContext* context) {
  const gert::Shape* x = context->GetInputShape(0);
  *context->GetOutputShape(0) = {x->GetDim(1), x->GetDim(0)};
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class TransposeBlocks : public OpDef {
 public:
  explicit TransposeBlocks(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->SetInferShape(optiling::Swapped);

    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(TransposeBlocks);

}  // namespace ops
