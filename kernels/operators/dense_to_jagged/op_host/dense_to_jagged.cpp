#include "jagged_host.h"

namespace {

constexpr std::size_t DENSE = 0;
constexpr std::size_t OFFSETS = 1;
constexpr std::size_t FAULTS = 1;  // of the outputs
constexpr std::size_t TOTAL_LEN = 0;

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<JaggedTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = JaggedTilingData{};
  const auto& dense = context->GetRequiredInputShape(DENSE)->GetStorageShape();
  const auto& values = context->GetOutputShape(0)->GetStorageShape();
  const auto* totalLen = context->GetAttrs()->GetInt(TOTAL_LEN);
  if (values.GetDimNum() != 2 || totalLen == nullptr || *totalLen < 0 || values.GetDim(0) != *totalLen ||
      !jagged::DescribeOffsets(context, OFFSETS, *tiling) || !fault::Fits(context, FAULTS) ||
      dense.GetDimNum() != tiling->dims + 2) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->valueRows = *totalLen;
  tiling->innerSize = values.GetDim(1);
  tiling->totalElements = values.GetShapeSize();
  if (dense.GetDim(0) != tiling->nodes[0] || dense.GetDim(tiling->dims + 1) != tiling->innerSize) {
    return ge::GRAPH_PARAM_INVALID;
  }
  for (uint32_t k = 0; k < tiling->dims; ++k) {
    tiling->maxLengths[k] = dense.GetDim(k + 1);
  }
  const int64_t width = ge::GetSizeByDataType(context->GetRequiredInputDesc(DENSE)->GetDataType());
  tiling->fillPattern = 0;
  return jagged::SplitOutput(context, *tiling, width);
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* dense = context->GetRequiredInputShape(DENSE);
  const auto* totalLen = context->GetAttrs()->GetInt(TOTAL_LEN);
  auto* values = context->GetOutputShape(0);
  if (dense == nullptr || totalLen == nullptr || values == nullptr || dense->GetDimNum() < 3) {
    return ge::GRAPH_FAILED;
  }
  values->SetDimNum(0);
  values->AppendDim(*totalLen);
  values->AppendDim(dense->GetDim(dense->GetDimNum() - 1));
  return fault::InferShape(context, FAULTS);
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(FAULTS, ge::DT_INT64);
  return context->SetOutputDataType(0, context->GetRequiredInputDataType(DENSE));
}

}  // namespace ge

namespace ops {

class DenseToJagged : public OpDef {
 public:
  explicit DenseToJagged(const char* name) : OpDef(name) {
    this->Input("dense").ParamType(REQUIRED).DataType(jagged::ValueTypes()).Format(jagged::Formats()).AutoContiguous();
    this->Input("offsets")
        .ParamType(DYNAMIC)
        .DataType(jagged::OffsetTypes())
        .Format(jagged::Formats())
        .AutoContiguous();
    fault::DeclareInput(*this, jagged::Formats());
    this->Output("values").ParamType(REQUIRED).DataType(jagged::ValueTypes()).Format(jagged::Formats());
    fault::DeclareOutput(*this, jagged::Formats());
    this->Attr("total_len").AttrType(REQUIRED).Int();
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(DenseToJagged);

}  // namespace ops
