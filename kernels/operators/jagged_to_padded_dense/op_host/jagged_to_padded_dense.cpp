#include "jagged_host.h"

namespace {

constexpr std::size_t VALUES = 0;
constexpr std::size_t OFFSETS = 1;
constexpr std::size_t FAULTS = 1;  // of the outputs
constexpr std::size_t MAX_LENGTHS = 0;
constexpr std::size_t PADDING_BITS = 1;

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<JaggedTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = JaggedTilingData{};
  const auto& values = context->GetRequiredInputShape(VALUES)->GetStorageShape();
  const auto& dense = context->GetOutputShape(0)->GetStorageShape();
  const auto* maxLengths = context->GetAttrs()->GetListInt(MAX_LENGTHS);
  const auto* paddingBits = context->GetAttrs()->GetInt(PADDING_BITS);
  if (values.GetDimNum() != 2 || maxLengths == nullptr || paddingBits == nullptr ||
      !jagged::DescribeOffsets(context, OFFSETS, *tiling) || !fault::Fits(context, FAULTS) ||
      maxLengths->GetSize() != tiling->dims || dense.GetDimNum() != tiling->dims + 2) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->valueRows = values.GetDim(0);
  tiling->innerSize = values.GetDim(1);
  tiling->totalElements = dense.GetShapeSize();
  bool agrees = dense.GetDim(0) == tiling->nodes[0] && dense.GetDim(tiling->dims + 1) == tiling->innerSize;
  for (uint32_t k = 0; k < tiling->dims; ++k) {
    tiling->maxLengths[k] = maxLengths->GetData()[k];
    agrees = agrees && dense.GetDim(k + 1) == tiling->maxLengths[k];
  }
  if (!agrees) {
    return ge::GRAPH_PARAM_INVALID;
  }
  const int64_t width = ge::GetSizeByDataType(context->GetRequiredInputDesc(VALUES)->GetDataType());
  tiling->fillPattern = jagged::Repeated(static_cast<uint64_t>(*paddingBits), width);
  return jagged::SplitOutput(context, *tiling, width);
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* values = context->GetRequiredInputShape(VALUES);
  const auto* offsets = context->GetDynamicInputShape(OFFSETS, 0);
  const auto* maxLengths = context->GetAttrs()->GetListInt(MAX_LENGTHS);
  auto* dense = context->GetOutputShape(0);
  if (values == nullptr || offsets == nullptr || maxLengths == nullptr || dense == nullptr ||
      values->GetDimNum() != 2 || offsets->GetDimNum() != 1) {
    return ge::GRAPH_FAILED;
  }
  dense->SetDimNum(0);
  dense->AppendDim(offsets->GetDim(0) < 0 ? -1 : offsets->GetDim(0) - 1);
  for (std::size_t k = 0; k < maxLengths->GetSize(); ++k) {
    dense->AppendDim(maxLengths->GetData()[k]);
  }
  dense->AppendDim(values->GetDim(1));
  return fault::InferShape(context, FAULTS);
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(FAULTS, ge::DT_INT64);
  return context->SetOutputDataType(0, context->GetRequiredInputDataType(VALUES));
}

}  // namespace ge

namespace ops {

class JaggedToPaddedDense : public OpDef {
 public:
  explicit JaggedToPaddedDense(const char* name) : OpDef(name) {
    this->Input("values").ParamType(REQUIRED).DataType(jagged::ValueTypes()).Format(jagged::Formats()).AutoContiguous();
    this->Input("offsets")
        .ParamType(DYNAMIC)
        .DataType(jagged::OffsetTypes())
        .Format(jagged::Formats())
        .AutoContiguous();
    fault::DeclareInput(*this, jagged::Formats());
    this->Output("dense").ParamType(REQUIRED).DataType(jagged::ValueTypes()).Format(jagged::Formats());
    fault::DeclareOutput(*this, jagged::Formats());
    this->Attr("max_lengths").AttrType(REQUIRED).ListInt();
    this->Attr("padding_bits").AttrType(REQUIRED).Int();
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(JaggedToPaddedDense);

}  // namespace ops
