// The library's SoftmaxGrad: dx from the result of a softmax and the gradient of that.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(SoftmaxGradTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);
TILING_DATA_FIELD_DEF(uint32_t, columns);
TILING_DATA_FIELD_DEF(uint32_t, padded);
TILING_DATA_FIELD_DEF(uint32_t, tmpSize);
TILING_DATA_FIELD_DEF_STRUCT(SoftMaxTiling, softmaxTilingData);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(SoftmaxGradLibrary, SoftmaxGradTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& y = context->GetInputShape(0)->GetOriginShape();
  const uint32_t typeSize = context->GetInputDesc(0)->GetDataType() == ge::DT_FLOAT ? 4 : 2;
  const uint32_t perBlock = 32 / typeSize;
  SoftmaxGradTilingData tiling;
  tiling.set_columns(y.GetDim(1));
  tiling.set_rows(y.GetDim(0));
  tiling.set_padded((tiling.get_columns() + perBlock - 1) / perBlock * perBlock);
  std::vector<int64_t> dims = {tiling.get_rows(), tiling.get_padded()};
  ge::Shape srcShape(dims);
  tiling.set_tmpSize(AscendC::GetSoftMaxGradMinTmpSize(srcShape, typeSize, false, false));
  AscendC::SoftMaxGradTilingFunc(srcShape, typeSize, tiling.get_tmpSize(), tiling.softmaxTilingData, false);
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class SoftmaxGradLibrary : public OpDef {
 public:
  explicit SoftmaxGradLibrary(const char* name) : OpDef(name) {
    this->Input("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Input("dy")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("dx")
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

OP_ADD(SoftmaxGradLibrary);

}  // namespace ops
