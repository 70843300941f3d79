#include "projection_host.h"

namespace {

constexpr std::size_t GRADS = 0;
constexpr std::size_t X = 1;
constexpr std::size_t WEIGHT = 2;
constexpr uint32_t FLOAT_STRIPS = 4;

}  // namespace

namespace optiling {

static bool GradsFit(gert::TilingContext* context, const LayerTilingData& tiling) {
  for (uint32_t part = 0; part < tiling.parts; ++part) {
    const auto* grad = context->GetDynamicInputShape(GRADS, part);
    if (grad == nullptr || !layer::IsMatrix(grad->GetStorageShape(), tiling.tokens, tiling.split[part])) {
      return false;
    }
  }
  return context->GetDynamicInputShape(GRADS, tiling.parts) == nullptr;
}

static ge::graphStatus BackwardTilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<LayerTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = LayerTilingData{};
  if (!projection::Describe(context, X, WEIGHT, *tiling) || !GradsFit(context, *tiling)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const auto type = context->GetRequiredInputDesc(WEIGHT)->GetDataType();
  const uint32_t bytes = layer::BytesOf(type);
  const uint32_t rowBytes = layer::BytesOf(context->GetRequiredInputDesc(X)->GetDataType());
  projection::SizePanels(platform, bytes, *tiling);
  layer::SizeStrips(platform, FLOAT_STRIPS, rowBytes, *tiling);
  tiling->sumBlocks = 1;
  tiling->sumElements = layer::BlockElements(*tiling, tiling->width);
  if (!hstu::DescribeProduct(platform, type, false, false, tiling->blockRows, tiling->panelColumns, tiling->width,
                             tiling->product, type) ||
      !hstu::DescribeProduct(platform, type, false, true, tiling->blockRows, tiling->width, tiling->inner,
                             tiling->gradient)) {
    return ge::GRAPH_FAILED;
  }
  return layer::Launch(context, platform, bytes, *tiling);
}

}  // namespace optiling

namespace ge {

// The gradient of x, norm(x), the gradient of the products.
static ge::graphStatus BackwardInferShape(gert::InferShapeContext* context) {
  const auto* x = context->GetRequiredInputShape(X);
  const auto* weight = context->GetRequiredInputShape(WEIGHT);
  auto* products = context->GetOutputShape(2);
  if (x == nullptr || weight == nullptr || products == nullptr || x->GetDimNum() != 2 || weight->GetDimNum() != 2) {
    return ge::GRAPH_FAILED;
  }
  *context->GetOutputShape(0) = *x;
  *context->GetOutputShape(1) = *x;
  *products = *x;
  products->SetDim(1, weight->GetDim(1));
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus BackwardInferDataType(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(0, context->GetRequiredInputDataType(X));
  context->SetOutputDataType(1, context->GetRequiredInputDataType(WEIGHT));
  context->SetOutputDataType(2, context->GetRequiredInputDataType(WEIGHT));
  return ge::GRAPH_SUCCESS;
}

}  // namespace ge

namespace ops {

class HstuProjectionBackward : public OpDef {
 public:
  explicit HstuProjectionBackward(const char* name) : OpDef(name) {
    layer::Declare(this->Input("grads"), layer::Multiplied(), DYNAMIC);
    projection::DeclareRest(*this);
    layer::Typed(this->Output("dx"), layer::RowsBetween());
    layer::Typed(this->Output("normed"), layer::Multiplied());
    layer::Typed(this->Output("dproducts"), layer::Multiplied());
    this->SetInferShape(ge::BackwardInferShape).SetInferDataType(ge::BackwardInferDataType);
    this->AICore().SetTiling(optiling::BackwardTilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(HstuProjectionBackward);

}  // namespace ops
