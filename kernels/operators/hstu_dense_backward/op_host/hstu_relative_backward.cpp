#include "hstu_backward_host.h"
#include "hstu_relative_host.h"

namespace {

constexpr hstu::InputIndex INPUTS = {1, 2, 3, -1, -1, 8, -1, 9, 10, -1, -1, -1, -1};
constexpr std::size_t TABLES = 4;
constexpr std::size_t GRADIENTS = 5;

}  // namespace

namespace optiling {

static ge::graphStatus RelativeTilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<HstuTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = HstuTilingData{};
  hstu::Describer describer(context, INPUTS, *tiling);
  if (!describer.Describe() || !hstu::DescribeRelative(context, TABLES, *tiling) ||
      !hstu::FitsResult(context, *tiling)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const auto type = context->GetRequiredInputDesc(1)->GetDataType();
  const auto bytes = static_cast<uint32_t>(ge::GetSizeByDataType(type));
  hstu::SizeBackward(describer, bytes, *tiling);
  hstu::SizeRelative(true, *tiling);
  const int64_t largest = std::max<int64_t>(tiling->slotElements, hstu::MAX_DIM);
  tiling->stripElements =
      hstu::StripElements(platform, *tiling, bytes, hstu::BackwardBytes(bytes) + hstu::RELATIVE_BYTES, largest,
                          hstu::RelativeBytesBeside(true, *tiling));
  if (!hstu::DescribeBackwardProducts(platform, type, *tiling)) {
    return ge::GRAPH_FAILED;
  }
  return hstu::LaunchBackward(context, platform, type, *tiling);
}

}  // namespace optiling

namespace ge {

// Of q, k, v, then of both tables.
static ge::graphStatus RelativeInferShape(gert::InferShapeContext* context) {
  return hstu::InferGradients(context, GRADIENTS);
}

static ge::graphStatus RelativeInferDataType(gert::InferDataTypeContext* context) {
  for (std::size_t i = 0; i < GRADIENTS; ++i) {
    context->SetOutputDataType(i, context->GetRequiredInputDataType(i + 1));
  }
  return ge::GRAPH_SUCCESS;
}

}  // namespace ge

namespace ops {

class HstuRelativeBackward : public OpDef {
 public:
  explicit HstuRelativeBackward(const char* name) : OpDef(name) {
    const auto columns = hstu::RelativeColumns();
    const std::vector<ge::DataType> floats(columns.data.size(), ge::DT_FLOAT);
    for (const char* input : {"grad", "q", "k", "v"}) {
      this->Input(input).ParamType(REQUIRED).DataType(columns.data).Format(columns.format).AutoContiguous();
    }
    hstu::DeclareTables(*this, columns);
    for (const char* output : {"q_grad", "k_grad", "v_grad"}) {
      this->Output(output).ParamType(REQUIRED).DataType(columns.data).Format(columns.format);
    }
    for (const char* output : {"position_grad", "time_grad"}) {
      this->Output(output).ParamType(REQUIRED).DataType(floats).Format(columns.format);
    }
    hstu::DeclareAttributes(*this);
    this->SetInferShape(ge::RelativeInferShape).SetInferDataType(ge::RelativeInferDataType);
    this->AICore().SetTiling(optiling::RelativeTilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(HstuRelativeBackward);

}  // namespace ops
