// Rows as often as an input's values say: shape function and tiling read them on the host, the kernel on the device.
#include "length_tiling.h"
#include "register/op_def_registry.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(RepeatTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);
TILING_DATA_FIELD_DEF(uint32_t, columns);
TILING_DATA_FIELD_DEF(uint32_t, total);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(RepeatInterleaveCustom, RepeatTilingData)

static int64_t TotalOf(const gert::Tensor* repeats) {
  if (repeats == nullptr || repeats->GetData<int64_t>() == nullptr) {
    return -1;
  }
  int64_t total = 0;
  for (int64_t i = 0; i < repeats->GetShapeSize(); i++) {
    total += repeats->GetData<int64_t>()[i];
  }
  return total;
}

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& x = context->GetInputShape(0)->GetStorageShape();
  const int64_t total = TotalOf(context->GetInputTensor(1));
  if (total < 0 || context->GetInputTensor(1)->GetShapeSize() != x.GetDim(0)) {
    return ge::GRAPH_FAILED;
  }
  RepeatTilingData tiling;
  tiling.set_rows(x.GetDim(0));
  tiling.set_columns(x.GetDim(1));
  tiling.set_total(total);
  return Save(context, tiling, 1);
}

static ge::graphStatus Repeated(gert::InferShapeContext* context) {
  const int64_t total = TotalOf(context->GetInputTensor(1));
  if (total < 0) {
    return ge::GRAPH_FAILED;
  }
  *context->GetOutputShape(0) = {total, context->GetInputShape(0)->GetDim(1)};
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class RepeatInterleaveCustom : public OpDef {
 public:
  explicit RepeatInterleaveCustom(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Input("repeats")
        .ParamType(REQUIRED)
        .DataType({ge::DT_INT64})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND})
        .ValueDepend(REQUIRED);
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->SetInferShape(optiling::Repeated);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(RepeatInterleaveCustom);

}  // namespace ops
