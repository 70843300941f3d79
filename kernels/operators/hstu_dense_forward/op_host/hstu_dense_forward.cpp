#include "hstu_forward_host.h"

namespace {

constexpr hstu::InputIndex INPUTS = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

}

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<HstuTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = HstuTilingData{};
  hstu::Describer describer(context, INPUTS, *tiling);
  if (!fault::Fits(context, hstu::FAULTS) || !describer.Describe()) {
    return ge::GRAPH_PARAM_INVALID;
  }
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const auto type = context->GetRequiredInputDesc(0)->GetDataType();
  const auto bytes = static_cast<uint32_t>(ge::GetSizeByDataType(type));
  hstu::SizeForward(describer, bytes, *tiling);
  const uint32_t perElement = hstu::ForwardBytes(bytes);
  const int64_t largest = std::max<int64_t>(tiling->slotElements, hstu::MAX_DIM);
  tiling->stripElements = hstu::StripElements(platform, *tiling, bytes, perElement, largest);
  if (!hstu::DescribeForwardProducts(platform, type, *tiling)) {
    return ge::GRAPH_FAILED;
  }
  return hstu::LaunchForward(context, platform, *tiling);
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) { return hstu::InferOutput(context); }

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) { return hstu::InferOutputType(context); }

}  // namespace ge

namespace ops {

class HstuDenseForward : public OpDef {
 public:
  explicit HstuDenseForward(const char* name) : OpDef(name) {
    const auto columns = hstu::AllColumns();
    for (const char* input : {"q", "k", "v"}) {
      this->Input(input).ParamType(REQUIRED).DataType(columns.data).Format(columns.format).AutoContiguous();
    }
    hstu::DeclareMaskAndSequences(*this, columns);
    this->Input("kv_cache").ParamType(OPTIONAL).DataType(columns.data).Format(columns.format).AutoContiguous();
    for (const char* input : {"page_offsets", "page_ids", "last_page_len"}) {
      this->Input(input).ParamType(OPTIONAL).DataType(columns.index).Format(columns.format).AutoContiguous();
    }
    fault::DeclareInput(*this, columns.format);
    this->Output("attn_output").ParamType(REQUIRED).DataType(columns.data).Format(columns.format);
    fault::DeclareOutput(*this, columns.format);
    hstu::DeclareAttributes(*this);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(HstuDenseForward);

}  // namespace ops
