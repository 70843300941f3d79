// The library's SoftMax: its scratch and its tiling are asked for here.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(SoftmaxLibraryTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);
TILING_DATA_FIELD_DEF(uint32_t, columns);
TILING_DATA_FIELD_DEF(uint32_t, padded);
TILING_DATA_FIELD_DEF(uint32_t, tmpSize);
TILING_DATA_FIELD_DEF_STRUCT(SoftMaxTiling, softmaxTilingData);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(SoftmaxLibrary, SoftmaxLibraryTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& x = context->GetInputShape(0)->GetOriginShape();
  const uint32_t typeSize = context->GetInputDesc(0)->GetDataType() == ge::DT_FLOAT ? 4 : 2;
  const uint32_t perBlock = 32 / typeSize;
  SoftmaxLibraryTilingData tiling;
  tiling.set_columns(x.GetDim(x.GetDimNum() - 1));
  tiling.set_rows(x.GetShapeSize() / tiling.get_columns());
  tiling.set_padded((tiling.get_columns() + perBlock - 1) / perBlock * perBlock);
  std::vector<int64_t> dims = {tiling.get_rows(), tiling.get_padded()};
  ge::Shape srcShape(dims);
  const uint32_t least = AscendC::GetSoftMaxMinTmpSize(srcShape, typeSize, false);
  const uint32_t most = AscendC::GetSoftMaxMaxTmpSize(srcShape, typeSize, false);
  tiling.set_tmpSize(most < 2 * least ? most : 2 * least);
  AscendC::SoftMaxTilingFunc(srcShape, typeSize, tiling.get_tmpSize(), tiling.softmaxTilingData);
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class SoftmaxLibrary : public OpDef {
 public:
  explicit SoftmaxLibrary(const char* name) : OpDef(name) {
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

OP_ADD(SoftmaxLibrary);

}  // namespace ops
