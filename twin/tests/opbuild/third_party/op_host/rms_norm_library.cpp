// The library's RmsNorm, which finds its scratch behind the buffers.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(RmsNormLibraryTilingData)
TILING_DATA_FIELD_DEF(float, epsilon);
TILING_DATA_FIELD_DEF_STRUCT(RmsNormTiling, rmsnormTilingData);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(RmsNormLibrary, RmsNormLibraryTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& x = context->GetInputShape(0)->GetOriginShape();
  std::vector<int64_t> stored = {1, x.GetDim(0), (x.GetDim(1) + 7) / 8 * 8};
  std::vector<int64_t> counted = {1, x.GetDim(0), x.GetDim(1)};
  uint32_t most = 0;
  uint32_t least = 0;
  RmsNormLibraryTilingData tiling;
  if (!AscendC::GetRmsNormMaxMinTmpSize(ge::Shape(stored), sizeof(float), most, least) ||
      !AscendC::GetRmsNormTilingInfo(ge::Shape(stored), ge::Shape(counted), least, sizeof(float),
                                     tiling.rmsnormTilingData)) {
    return ge::GRAPH_FAILED;
  }
  tiling.set_epsilon(*context->GetAttrs()->GetFloat(0));
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class RmsNormLibrary : public OpDef {
 public:
  explicit RmsNormLibrary(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Input("gamma")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Attr("epsilon").AttrType(OPTIONAL).Float(1e-5f);
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(RmsNormLibrary);

}  // namespace ops
