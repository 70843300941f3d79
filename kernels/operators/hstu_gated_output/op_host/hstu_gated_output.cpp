#include "gate_host.h"

namespace {

constexpr gate::Inputs INPUTS = {0, 1, 2, 3, 5};
constexpr std::size_t X = 2;
constexpr std::size_t BIAS = 4;
constexpr uint32_t FLOAT_STRIPS = 4;

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<LayerTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = LayerTilingData{};
  if (!gate::Describe(context, INPUTS, *tiling)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  const auto& bias = context->GetInputShape(BIAS)->GetStorageShape();
  if (bias.GetDimNum() != 1 || bias.GetDim(0) != tiling->inner) {
    return ge::GRAPH_PARAM_INVALID;
  }
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const auto type = context->GetInputDesc(0)->GetDataType();
  const auto rowType = context->GetInputDesc(X)->GetDataType();
  const uint32_t bytes = layer::BytesOf(type);
  layer::SizeBlocks(platform, hstu::BLOCK_ROWS, *tiling);
  layer::SizeStrips(platform, FLOAT_STRIPS, layer::BytesOf(rowType), *tiling);
  tiling->operandElements = layer::BlockElements(*tiling, tiling->width);
  if (!hstu::DescribeProduct(platform, type, false, true, tiling->blockRows, tiling->inner, tiling->width,
                             tiling->product, rowType)) {
    return ge::GRAPH_FAILED;
  }
  return layer::Launch(context, platform, bytes, *tiling);
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* x = context->GetInputShape(X);
  if (x == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *context->GetOutputShape(0) = *x;
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  return context->SetOutputDataType(0, context->GetInputDataType(X));
}

}  // namespace ge

namespace ops {

class HstuGatedOutput : public OpDef {
 public:
  explicit HstuGatedOutput(const char* name) : OpDef(name) {
    layer::Declare(this->Input("attended"), layer::Multiplied());
    layer::Declare(this->Input("u"), layer::Multiplied());
    layer::Declare(this->Input("x"), layer::RowsBetween());
    layer::Declare(this->Input("weight"), layer::Multiplied());
    layer::Declare(this->Input("bias"), layer::Multiplied());
    gate::DeclareRest(*this, layer::Multiplied().size());
    layer::Typed(this->Output("out"), layer::RowsBetween());
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(HstuGatedOutput);

}  // namespace ops
