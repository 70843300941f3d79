// The library's LayerNormGrad: the gradient of x from that of the result.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(LayerNormGradLibraryTilingData)
TILING_DATA_FIELD_DEF(float, epsilon);
TILING_DATA_FIELD_DEF_STRUCT(LayerNormGradTiling, gradTiling);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(LayerNormGradLibrary, LayerNormGradLibraryTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& x = context->GetInputShape(0)->GetOriginShape();
  const uint32_t typeSize = context->GetInputDesc(0)->GetDataType() == ge::DT_FLOAT ? 4 : 2;
  const int64_t perBlock = 32 / typeSize;
  const int64_t columns = x.GetDim(1);
  std::vector<int64_t> dims = {1, x.GetDim(0), (columns + perBlock - 1) / perBlock * perBlock, columns};
  ge::Shape srcShape(dims);
  uint32_t most = 0;
  uint32_t least = 0;
  AscendC::GetLayerNormGradMaxMinTmpSize(srcShape, typeSize, false, most, least);
  LayerNormGradLibraryTilingData tiling;
  AscendC::GetLayerNormGradNDTilingInfo(srcShape, least, typeSize, false, tiling.gradTiling);
  tiling.set_epsilon(*context->GetAttrs()->GetFloat(0));
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class LayerNormGradLibrary : public OpDef {
 public:
  explicit LayerNormGradLibrary(const char* name) : OpDef(name) {
    for (const char* input : {"x", "dy", "variance", "mean", "gamma"}) {
      this->Input(input)
          .ParamType(REQUIRED)
          .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
          .Format({ge::FORMAT_ND, ge::FORMAT_ND})
          .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    }
    this->Output("dx")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Attr("epsilon").AttrType(OPTIONAL).Float(1e-5f);
    this->SetInferShape(ge::SameShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(LayerNormGradLibrary);

}  // namespace ops
