#include "hstu_forward_host.h"
#include "hstu_relative_host.h"

namespace {

constexpr hstu::InputIndex INPUTS = {0, 1, 2, -1, -1, 7, -1, 8, 9, -1, -1, -1, -1};
constexpr std::size_t TABLES = 3;

}  // namespace

namespace optiling {

static ge::graphStatus RelativeTilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<HstuTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = HstuTilingData{};
  hstu::Describer describer(context, INPUTS, *tiling);
  if (!fault::Fits(context, hstu::FAULTS) || !describer.Describe() ||
      !hstu::DescribeRelative(context, TABLES, *tiling)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const auto type = context->GetRequiredInputDesc(0)->GetDataType();
  const auto bytes = static_cast<uint32_t>(ge::GetSizeByDataType(type));
  hstu::SizeForward(describer, bytes, *tiling);
  hstu::SizeRelative(false, *tiling);
  const uint32_t perElement = hstu::ForwardBytes(bytes) + hstu::RELATIVE_BYTES;
  const int64_t largest = std::max<int64_t>(tiling->slotElements, hstu::MAX_DIM);
  const uint32_t beside = hstu::RelativeBytesBeside(false, *tiling);
  tiling->stripElements = hstu::StripElements(platform, *tiling, bytes, perElement, largest, beside);
  if (!hstu::DescribeForwardProducts(platform, type, *tiling)) {
    return ge::GRAPH_FAILED;
  }
  return hstu::LaunchForward(context, platform, *tiling);
}

}  // namespace optiling

namespace ge {

static ge::graphStatus RelativeInferShape(gert::InferShapeContext* context) { return hstu::InferOutput(context); }

static ge::graphStatus RelativeInferDataType(gert::InferDataTypeContext* context) {
  return hstu::InferOutputType(context);
}

}  // namespace ge

namespace ops {

class HstuRelativeForward : public OpDef {
 public:
  explicit HstuRelativeForward(const char* name) : OpDef(name) {
    const auto columns = hstu::RelativeColumns();
    for (const char* input : {"q", "k", "v"}) {
      this->Input(input).ParamType(REQUIRED).DataType(columns.data).Format(columns.format).AutoContiguous();
    }
    hstu::DeclareTables(*this, columns);
    fault::DeclareInput(*this, columns.format);
    this->Output("attn_output").ParamType(REQUIRED).DataType(columns.data).Format(columns.format);
    fault::DeclareOutput(*this, columns.format);
    hstu::DeclareAttributes(*this);
    this->SetInferShape(ge::RelativeInferShape).SetInferDataType(ge::RelativeInferDataType);
    this->AICore().SetTiling(optiling::RelativeTilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(HstuRelativeForward);

}  // namespace ops
