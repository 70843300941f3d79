#include "data_faults_host.h"
#include "row_shares.h"

#include "../op_kernel/permute2d_sparse_data_grad_tiling.h"

namespace {

constexpr std::size_t GRAD = 0;
constexpr std::size_t SORTED_PERMUTE = 1;
constexpr std::size_t ORDER = 2;
constexpr std::size_t IN_OFFSETS = 3;
constexpr std::size_t OUT_OFFSETS = 4;
constexpr std::size_t TOTAL_LEN = 0;
constexpr std::size_t FAULTS = 1;  // of the outputs
constexpr uint32_t TILE_BYTES = 40 * 1024;
constexpr uint32_t FILL_BYTES = 8 * 1024;
constexpr uint32_t SUM_ELEMENTS = 4096;

}  // namespace

namespace optiling {

static ge::graphStatus GradTilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<Permute2dSparseDataGradTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = Permute2dSparseDataGradTilingData{};
  const auto& grad = context->GetRequiredInputShape(GRAD)->GetStorageShape();
  const auto& values = context->GetOutputShape(0)->GetStorageShape();
  const auto& sorted = context->GetRequiredInputShape(SORTED_PERMUTE)->GetStorageShape();
  const auto& in = context->GetRequiredInputShape(IN_OFFSETS)->GetStorageShape();
  const auto* totalLen = context->GetAttrs()->GetInt(TOTAL_LEN);
  if (grad.GetDimNum() != 2 || values.GetDimNum() != 2 || sorted.GetDimNum() != 1 || in.GetDimNum() != 1 ||
      in.GetDim(0) < 1 || totalLen == nullptr || *totalLen != values.GetDim(0) || values.GetDim(1) != grad.GetDim(1) ||
      !fault::Fits(context, FAULTS)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->copies = sorted.GetDim(0);
  tiling->features = in.GetDim(0) - 1;
  if (!permute::IsVector(context->GetRequiredInputShape(ORDER), tiling->copies) ||
      !permute::IsVector(context->GetRequiredInputShape(OUT_OFFSETS), tiling->copies + 1)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->gradRows = grad.GetDim(0);
  tiling->rows = values.GetDim(0);
  tiling->innerSize = values.GetDim(1);
  tiling->tileBytes = TILE_BYTES;
  tiling->fillBytes = FILL_BYTES;
  tiling->sumElements = SUM_ELEMENTS;
  const int64_t width = ge::GetSizeByDataType(context->GetRequiredInputDesc(GRAD)->GetDataType());
  tiling->rowsPerCore = permute::Share(tiling->rows, tiling->innerSize * width, permute::Cores(context));
  return permute::Launch(context, permute::CeilDiv(tiling->rows, tiling->rowsPerCore));
}

}  // namespace optiling

namespace ge {

static ge::graphStatus GradInferShape(gert::InferShapeContext* context) {
  const auto* grad = context->GetRequiredInputShape(GRAD);
  const auto* totalLen = context->GetAttrs()->GetInt(TOTAL_LEN);
  auto* values = context->GetOutputShape(0);
  if (grad == nullptr || totalLen == nullptr || values == nullptr || grad->GetDimNum() != 2) {
    return ge::GRAPH_FAILED;
  }
  *values = *grad;
  values->SetDim(0, *totalLen);
  return fault::InferShape(context, FAULTS);
}

static ge::graphStatus GradInferDataType(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(FAULTS, ge::DT_INT64);
  return context->SetOutputDataType(0, context->GetRequiredInputDataType(GRAD));
}

}  // namespace ge

namespace ops {

class Permute2dSparseDataGrad : public OpDef {
 public:
  explicit Permute2dSparseDataGrad(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> values = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16};
    const std::vector<ge::DataType> entries(values.size(), ge::DT_INT64);
    const std::vector<ge::Format> formats(values.size(), ge::FORMAT_ND);
    this->Input("grad").ParamType(REQUIRED).DataType(values).Format(formats).AutoContiguous();
    this->Input("sorted_permute").ParamType(REQUIRED).DataType(entries).Format(formats).AutoContiguous();
    this->Input("order").ParamType(REQUIRED).DataType(entries).Format(formats).AutoContiguous();
    this->Input("in_offsets").ParamType(REQUIRED).DataType(entries).Format(formats).AutoContiguous();
    this->Input("out_offsets").ParamType(REQUIRED).DataType(entries).Format(formats).AutoContiguous();
    fault::DeclareInput(*this, formats);
    this->Output("grad_values").ParamType(REQUIRED).DataType(values).Format(formats);
    fault::DeclareOutput(*this, formats);
    this->Attr("total_len").AttrType(REQUIRED).Int();
    this->SetInferShape(ge::GradInferShape).SetInferDataType(ge::GradInferDataType);
    this->AICore().SetTiling(optiling::GradTilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(Permute2dSparseDataGrad);

}  // namespace ops
