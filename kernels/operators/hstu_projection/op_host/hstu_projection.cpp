#include "projection_host.h"

namespace {

constexpr std::size_t X = 0;
constexpr std::size_t WEIGHT = 1;
constexpr uint32_t FLOAT_STRIPS = 2;

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<LayerTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = LayerTilingData{};
  if (!projection::Describe(context, X, WEIGHT, *tiling)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const auto type = context->GetInputDesc(WEIGHT)->GetDataType();
  const uint32_t bytes = layer::BytesOf(type);
  const uint32_t rowBytes = layer::BytesOf(context->GetInputDesc(X)->GetDataType());
  projection::SizePanels(platform, bytes, *tiling);
  layer::SizeStrips(platform, FLOAT_STRIPS, rowBytes, *tiling);
  tiling->operandElements = layer::BlockElements(*tiling, tiling->width);
  if (!hstu::DescribeProduct(platform, type, false, false, tiling->blockRows, tiling->panelColumns, tiling->width,
                             tiling->product, type)) {
    return ge::GRAPH_FAILED;
  }
  return layer::Launch(context, platform, bytes, *tiling);
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* x = context->GetInputShape(X);
  const auto* split = context->GetAttrs()->GetListInt(projection::SPLIT);
  if (x == nullptr || split == nullptr || x->GetDimNum() != 2) {
    return ge::GRAPH_FAILED;
  }
  for (std::size_t part = 0; part < split->GetSize(); ++part) {
    auto* shape = context->GetOutputShape(part);
    if (shape == nullptr) {
      return ge::GRAPH_FAILED;
    }
    *shape = *x;
    shape->SetDim(1, split->GetData()[part]);
  }
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  const auto* split = context->GetAttrs()->GetListInt(projection::SPLIT);
  for (std::size_t part = 0; split != nullptr && part < split->GetSize(); ++part) {
    context->SetOutputDataType(part, context->GetInputDataType(WEIGHT));
  }
  return ge::GRAPH_SUCCESS;
}

}  // namespace ge

namespace ops {

class HstuProjection : public OpDef {
 public:
  explicit HstuProjection(const char* name) : OpDef(name) {
    projection::DeclareRest(*this);
    layer::Typed(this->Output("parts"), layer::Multiplied(), DYNAMIC);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(HstuProjection);

}  // namespace ops
