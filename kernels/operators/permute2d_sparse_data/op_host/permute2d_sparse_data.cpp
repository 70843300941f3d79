#include "data_faults_host.h"
#include "row_shares.h"

#include "../op_kernel/permute2d_sparse_data_tiling.h"

namespace {

constexpr std::size_t PERMUTE = 0;
constexpr std::size_t LENGTHS = 1;
constexpr std::size_t VALUES = 2;
constexpr std::size_t WEIGHTS = 3;
constexpr std::size_t IN_OFFSETS = 4;
constexpr std::size_t OUT_OFFSETS = 5;
constexpr std::size_t OUT_LEN = 0;
constexpr std::size_t FAULTS = 3;  // of the outputs
constexpr uint32_t TILE_BYTES = 64 * 1024;
constexpr uint32_t FILL_BYTES = 16 * 1024;

// The first dimension becomes `rows`, the others stay.
bool SameButRows(const gert::Shape& from, const gert::Shape& to, int64_t rows) {
  bool same = to.GetDimNum() == from.GetDimNum() && to.GetDimNum() > 0 && to.GetDim(0) == rows;
  for (std::size_t i = 1; same && i < from.GetDimNum(); ++i) {
    same = to.GetDim(i) == from.GetDim(i);
  }
  return same;
}

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<Permute2dSparseDataTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = Permute2dSparseDataTilingData{};
  const auto& permute = context->GetRequiredInputShape(PERMUTE)->GetStorageShape();
  const auto& lengths = context->GetRequiredInputShape(LENGTHS)->GetStorageShape();
  const auto& values = context->GetRequiredInputShape(VALUES)->GetStorageShape();
  const auto* weights = context->GetOptionalInputShape(WEIGHTS);
  const auto* outLen = context->GetAttrs()->GetInt(OUT_LEN);
  if (permute.GetDimNum() != 1 || lengths.GetDimNum() < 1 || lengths.GetDimNum() > 2 || values.GetDimNum() < 1 ||
      outLen == nullptr || *outLen < 0 || !fault::Fits(context, FAULTS)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->copies = permute.GetDim(0);
  tiling->features = lengths.GetDim(0);
  tiling->batch = permute::RowElements(lengths);
  tiling->rows = values.GetDim(0);
  tiling->outRows = *outLen;
  if (!permute::IsVector(context->GetRequiredInputShape(IN_OFFSETS), tiling->features + 1) ||
      !permute::IsVector(context->GetRequiredInputShape(OUT_OFFSETS), tiling->copies + 1) ||
      !SameButRows(lengths, context->GetOutputShape(0)->GetStorageShape(), tiling->copies) ||
      !SameButRows(values, context->GetOutputShape(1)->GetStorageShape(), *outLen)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  const auto width = [context](std::size_t input) {
    return static_cast<int64_t>(ge::GetSizeByDataType(context->GetRequiredInputDesc(input)->GetDataType()));
  };
  tiling->valueRowBytes = permute::RowElements(values) * width(VALUES);
  if (weights != nullptr) {
    const auto& shape = weights->GetStorageShape();
    if (shape.GetDimNum() < 1 || shape.GetDim(0) != tiling->rows ||
        !SameButRows(shape, context->GetOutputShape(2)->GetStorageShape(), *outLen)) {
      return ge::GRAPH_PARAM_INVALID;
    }
    tiling->weightRowBytes =
        permute::RowElements(shape) * ge::GetSizeByDataType(context->GetOptionalInputDesc(WEIGHTS)->GetDataType());
  }
  tiling->tileBytes = TILE_BYTES;
  tiling->fillBytes = FILL_BYTES;

  const int64_t cores = permute::Cores(context);
  const int64_t lengthBytes = tiling->batch * width(LENGTHS);
  tiling->rowsPerCore = permute::Share(tiling->outRows, tiling->valueRowBytes + tiling->weightRowBytes, cores);
  tiling->copiesPerCore = permute::Share(tiling->copies, lengthBytes, cores);
  tiling->lengthColumns = lengths.GetDimNum() == 2 ? tiling->batch : 0;
  const bool looks = context->GetOutputShape(FAULTS) != nullptr;
  const int64_t looked = looks ? tiling->features * tiling->batch : 0;
  tiling->lengthsPerCore = permute::Share(looked, width(LENGTHS), cores);
  return permute::Launch(context, std::max({permute::CeilDiv(tiling->outRows, tiling->rowsPerCore),
                                            permute::CeilDiv(tiling->copies, tiling->copiesPerCore),
                                            permute::CeilDiv(looked, tiling->lengthsPerCore)}));
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* permute = context->GetRequiredInputShape(PERMUTE);
  const auto* lengths = context->GetRequiredInputShape(LENGTHS);
  const auto* values = context->GetRequiredInputShape(VALUES);
  const auto* weights = context->GetOptionalInputShape(WEIGHTS);
  const auto* outLen = context->GetAttrs()->GetInt(OUT_LEN);
  if (permute == nullptr || lengths == nullptr || values == nullptr || outLen == nullptr || permute->GetDimNum() != 1 ||
      lengths->GetDimNum() < 1 || values->GetDimNum() < 1) {
    return ge::GRAPH_FAILED;
  }
  auto* permutedLengths = context->GetOutputShape(0);
  auto* permutedValues = context->GetOutputShape(1);
  auto* permutedWeights = context->GetOutputShape(2);
  *permutedLengths = *lengths;
  permutedLengths->SetDim(0, permute->GetDim(0));
  *permutedValues = *values;
  permutedValues->SetDim(0, *outLen);
  if (weights != nullptr && weights->GetDimNum() > 0) {
    *permutedWeights = *weights;
    permutedWeights->SetDim(0, *outLen);
  } else {
    permutedWeights->SetDimNum(0);
    permutedWeights->AppendDim(0);
  }
  return fault::InferShape(context, FAULTS);
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(0, context->GetRequiredInputDataType(LENGTHS));
  context->SetOutputDataType(FAULTS, ge::DT_INT64);
  return context->SetOutputDataType(1, context->GetRequiredInputDataType(VALUES));
}

}  // namespace ge

namespace ops {

// One column per (permute, lengths, values). Weights are four bytes wide; a copy does not care what the bits mean, so
// other widths go through a second call, as values.
class Permute2dSparseData : public OpDef {
 public:
  explicit Permute2dSparseData(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> indices = {ge::DT_INT32, ge::DT_INT64};
    const std::vector<ge::DataType> widths = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16,
                                              ge::DT_INT8,  ge::DT_INT32,   ge::DT_INT64};
    std::vector<ge::DataType> permutes;
    std::vector<ge::DataType> lengths;
    std::vector<ge::DataType> values;
    for (const auto permute : indices) {
      for (const auto length : indices) {
        for (const auto value : widths) {
          permutes.push_back(permute);
          lengths.push_back(length);
          values.push_back(value);
        }
      }
    }
    const std::vector<ge::DataType> weights(values.size(), ge::DT_FLOAT);
    const std::vector<ge::DataType> offsets(values.size(), ge::DT_INT64);
    const std::vector<ge::Format> formats(values.size(), ge::FORMAT_ND);
    this->Input("permute").ParamType(REQUIRED).DataType(permutes).Format(formats).AutoContiguous();
    this->Input("lengths").ParamType(REQUIRED).DataType(lengths).Format(formats).AutoContiguous();
    this->Input("values").ParamType(REQUIRED).DataType(values).Format(formats).AutoContiguous();
    this->Input("weights").ParamType(OPTIONAL).DataType(weights).Format(formats).AutoContiguous();
    this->Input("in_offsets").ParamType(REQUIRED).DataType(offsets).Format(formats).AutoContiguous();
    this->Input("out_offsets").ParamType(REQUIRED).DataType(offsets).Format(formats).AutoContiguous();
    fault::DeclareInput(*this, formats);
    this->Output("permuted_lengths").ParamType(REQUIRED).DataType(lengths).Format(formats);
    this->Output("permuted_values").ParamType(REQUIRED).DataType(values).Format(formats);
    this->Output("permuted_weights").ParamType(REQUIRED).DataType(weights).Format(formats);
    fault::DeclareOutput(*this, formats);
    this->Attr("out_len").AttrType(REQUIRED).Int();
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(Permute2dSparseData);

}  // namespace ops
