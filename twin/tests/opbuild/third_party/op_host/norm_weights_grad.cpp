// The library's LayerNormGradBeta behind its LayerNormGrad: a row for gamma's gradient, and one for beta's.
#include "register/op_def_registry.h"
#include "same_shape.h"
#include "tiling/tiling_api.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(NormWeightsGradTilingData)
TILING_DATA_FIELD_DEF(float, epsilon);
TILING_DATA_FIELD_DEF(uint32_t, tmpSize);
TILING_DATA_FIELD_DEF_STRUCT(LayerNormGradTiling, gradTiling);
TILING_DATA_FIELD_DEF_STRUCT(LayerNormGradBetaTiling, betaTiling);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(NormWeightsGrad, NormWeightsGradTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape& x = context->GetInputShape(0)->GetOriginShape();
  const int64_t columns = x.GetDim(1);
  std::vector<int64_t> dims = {x.GetDim(0), 1, (columns + 7) / 8 * 8, columns};
  ge::Shape srcShape(dims);
  uint32_t most = 0;
  uint32_t leastOfRows = 0;
  uint32_t leastOfWeights = 0;
  AscendC::GetLayerNormGradMaxMinTmpSize(srcShape, sizeof(float), false, most, leastOfRows);
  AscendC::GetLayerNormGradBetaMaxMinTmpSize(srcShape, sizeof(float), false, most, leastOfWeights);
  NormWeightsGradTilingData tiling;
  tiling.set_tmpSize(leastOfRows > leastOfWeights ? leastOfRows : leastOfWeights);
  AscendC::GetLayerNormGradNDTilingInfo(srcShape, tiling.get_tmpSize(), sizeof(float), false, tiling.gradTiling);
  AscendC::GetLayerNormGradBetaNDTilingInfo(srcShape, tiling.get_tmpSize(), sizeof(float), false, tiling.betaTiling);
  tiling.set_epsilon(*context->GetAttrs()->GetFloat(0));
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus WeightShape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = {2, context->GetInputShape(0)->GetDim(1)};
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ops {

class NormWeightsGrad : public OpDef {
 public:
  explicit NormWeightsGrad(const char* name) : OpDef(name) {
    for (const char* input : {"x", "dy", "variance", "mean", "gamma"}) {
      this->Input(input)
          .ParamType(REQUIRED)
          .DataType({ge::DT_FLOAT})
          .Format({ge::FORMAT_ND})
          .UnknownShapeFormat({ge::FORMAT_ND});
    }
    this->Output("dweights")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT})
        .Format({ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND});
    this->Attr("epsilon").AttrType(OPTIONAL).Float(1e-5f);
    this->SetInferShape(optiling::WeightShape);
    this->SetInferDataType(ge::SameType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};

OP_ADD(NormWeightsGrad);

}  // namespace ops
