#include "hstu_backward_host.h"

namespace {

constexpr hstu::InputIndex INPUTS = {1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1, -1, -1};
constexpr std::size_t BIAS_GRAD = 3;

bool SameShape(const gert::StorageShape* a, const gert::StorageShape* b) {
  return a != nullptr && b != nullptr && a->GetStorageShape() == b->GetStorageShape();
}

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<HstuTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = HstuTilingData{};
  hstu::Describer describer(context, INPUTS, *tiling);
  if (!describer.Describe()) {
    return ge::GRAPH_PARAM_INVALID;
  }
  const bool biasGrad = context->GetOutputShape(BIAS_GRAD) != nullptr;
  if (!hstu::FitsResult(context, *tiling) ||
      (biasGrad && !SameShape(context->GetOutputShape(BIAS_GRAD), context->GetOptionalInputShape(5)))) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->sumsBias = biasGrad && ((tiling->bias.batchStride == 0 && tiling->batch > 1) ||
                                  (tiling->bias.headStride == 0 && tiling->heads > 1))
                         ? 1
                         : 0;
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const auto type = context->GetRequiredInputDesc(1)->GetDataType();
  const auto bytes = static_cast<uint32_t>(ge::GetSizeByDataType(type));
  hstu::SizeBackward(describer, bytes, *tiling);
  const int64_t largest = std::max<int64_t>(tiling->slotElements, hstu::MAX_DIM);
  tiling->stripElements = hstu::StripElements(platform, *tiling, bytes, hstu::BackwardBytes(bytes), largest);
  if (!hstu::DescribeBackwardProducts(platform, type, *tiling)) {
    return ge::GRAPH_FAILED;
  }
  return hstu::LaunchBackward(context, platform, type, *tiling);
}

}  // namespace optiling

namespace ge {

// Gradients look like what they belong to: q, k, v, attn_bias.
static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  if (hstu::InferGradients(context, 3) != ge::GRAPH_SUCCESS) {
    return ge::GRAPH_FAILED;
  }
  auto* biasGrad = context->GetOutputShape(BIAS_GRAD);
  if (biasGrad != nullptr) {
    const auto* bias = context->GetOptionalInputShape(5);
    if (bias == nullptr) {
      return ge::GRAPH_FAILED;
    }
    *biasGrad = *bias;
  }
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  for (std::size_t i = 0; i <= BIAS_GRAD; ++i) {
    context->SetOutputDataType(i, context->GetRequiredInputDataType(1));
  }
  return ge::GRAPH_SUCCESS;
}

}  // namespace ge

namespace ops {

class HstuDenseBackward : public OpDef {
 public:
  explicit HstuDenseBackward(const char* name) : OpDef(name) {
    const auto columns = hstu::AllColumns();
    for (const char* input : {"grad", "q", "k", "v"}) {
      this->Input(input).ParamType(REQUIRED).DataType(columns.data).Format(columns.format).AutoContiguous();
    }
    hstu::DeclareMaskAndSequences(*this, columns);
    for (const char* output : {"q_grad", "k_grad", "v_grad"}) {
      this->Output(output).ParamType(REQUIRED).DataType(columns.data).Format(columns.format);
    }
    this->Output("attn_bias_grad").ParamType(OPTIONAL).DataType(columns.data).Format(columns.format);
    hstu::DeclareAttributes(*this);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(HstuDenseBackward);

}  // namespace ops
