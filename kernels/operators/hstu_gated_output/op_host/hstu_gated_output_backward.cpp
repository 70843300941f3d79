#include "gate_host.h"

namespace {

constexpr gate::Inputs INPUTS = {1, 2, 0, 3, 4};
constexpr std::size_t OUTPUTS = 3;  // of attended, of u, and the gated rows
constexpr uint32_t FLOAT_STRIPS = 5;

}  // namespace

namespace optiling {

static ge::graphStatus BackwardTilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<LayerTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = LayerTilingData{};
  if (!gate::Describe(context, INPUTS, *tiling)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const auto type = context->GetInputDesc(0)->GetDataType();
  const uint32_t bytes = layer::BytesOf(type);
  layer::SizeBlocks(platform, layer::FittingRows(tiling->inner, bytes), *tiling);
  layer::SizeStrips(platform, FLOAT_STRIPS, bytes, *tiling);
  // Rows of fp32 sums stand in one result, or in two, half and half.
  if (bytes != sizeof(float) && tiling->width % LAYER_UNIT != 0) {
    tiling->sumBlocks = 2;
    tiling->sumElements = layer::BlockElements(*tiling, tiling->width);
  }
  if (!hstu::DescribeProduct(platform, type, false, false, tiling->blockRows, tiling->width, tiling->inner,
                             tiling->product)) {
    return ge::GRAPH_FAILED;
  }
  return layer::Launch(context, platform, bytes, *tiling);
}

}  // namespace optiling

namespace ge {

static ge::graphStatus BackwardInferShape(gert::InferShapeContext* context) {
  const auto* attended = context->GetInputShape(INPUTS.attended);
  if (attended == nullptr) {
    return ge::GRAPH_FAILED;
  }
  for (std::size_t output = 0; output < OUTPUTS; ++output) {
    *context->GetOutputShape(output) = *attended;
  }
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus BackwardInferDataType(gert::InferDataTypeContext* context) {
  for (std::size_t output = 0; output < OUTPUTS; ++output) {
    context->SetOutputDataType(output, context->GetInputDataType(INPUTS.attended));
  }
  return ge::GRAPH_SUCCESS;
}

}  // namespace ge

namespace ops {

class HstuGatedOutputBackward : public OpDef {
 public:
  explicit HstuGatedOutputBackward(const char* name) : OpDef(name) {
    for (const char* input : {"grad", "attended", "u", "weight"}) {
      layer::Declare(this->Input(input), layer::Alike());
    }
    gate::DeclareRest(*this, layer::Alike().size());
    for (const char* output : {"dattended", "du", "gated"}) {
      layer::Typed(this->Output(output), layer::Alike());
    }
    this->SetInferShape(ge::BackwardInferShape).SetInferDataType(ge::BackwardInferDataType);
    this->AICore().SetTiling(optiling::BackwardTilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(HstuGatedOutputBackward);

}  // namespace ops
