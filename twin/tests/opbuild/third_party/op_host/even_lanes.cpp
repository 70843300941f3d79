// Every other element (GatherMask), legacy names of flags; declared for another SoC.
#include "register/op_def_registry.h"
#include "row_tiling.h"

namespace optiling {

REGISTER_TILING_DATA_CLASS(EvenLanes, RowTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) { return SplitRows(context, 0); }

static ge::graphStatus HalfOf(gert::InferShapeContext* context) {
  context->GetOutputShape(0)->SetDimNum(0);
  context->GetOutputShape(0)->AppendDim((context->GetInputShape(0)->GetDim(0) + 1) / 2);
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class EvenLanes : public OpDef {
 public:
  explicit EvenLanes(const char* name) : OpDef(name) {
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
    this->SetInferShape(optiling::HalfOf);

    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend310b");
  }
};

OP_ADD(EvenLanes);

}  // namespace ops
