#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include <algorithm>

#include "../op_kernel/index_select_for_rank1_backward_tiling.h"
#include "host_math.h"

namespace {

constexpr std::size_t GRAD_Y = 0;
constexpr std::size_t X = 1;
constexpr std::size_t INDEX = 2;
constexpr std::size_t SORTED = 0;
constexpr uint32_t TILE_ELEMENTS = 2048;
constexpr int64_t MAX_IMAGE = 24576;  // floats: half of the unified buffer
constexpr int64_t SLICE = 16384;      // floats of x that a core owns at a time
constexpr int64_t MIN_CORE_ELEMENTS = 2048;
constexpr int64_t SHARE_ALIGNMENT = 256;  // elements, so that shares start on 512-byte borders
constexpr int64_t IMAGE_ALIGNMENT = 128;
constexpr uint64_t KEY_IMAGES = 1;
constexpr uint64_t KEY_SLICES = 2;
constexpr uint32_t BATCH_MODE = 1;

using host::CeilDiv;

int64_t Share(int64_t elements, int64_t blocks) {
  return std::max<int64_t>(SHARE_ALIGNMENT, CeilDiv(CeilDiv(elements, blocks), SHARE_ALIGNMENT) * SHARE_ALIGNMENT);
}

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<IndexSelectForRank1BackwardTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = IndexSelectForRank1BackwardTilingData{};
  const auto& grad = context->GetInputShape(GRAD_Y)->GetStorageShape();
  const auto& x = context->GetInputShape(X)->GetStorageShape();
  const auto& index = context->GetInputShape(INDEX)->GetStorageShape();
  const auto* sorted = context->GetAttrs()->GetBool(SORTED);
  if (x.GetDimNum() != 1 || sorted == nullptr || grad.GetShapeSize() != index.GetShapeSize() ||
      context->GetOutputShape(0)->GetStorageShape().GetShapeSize() != x.GetDim(0) ||
      context->GetOutputShape(1)->GetStorageShape().GetShapeSize() != index.GetShapeSize()) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->length = x.GetDim(0);
  tiling->count = index.GetShapeSize();
  tiling->tileElements = TILE_ELEMENTS;
  tiling->sorted = *sorted ? 1 : 0;

  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const int64_t cores = std::max<int64_t>(1, platform.GetCoreNumAiv());
  // Images cost `length` additions per core: worth it where each core brings more entries than that.
  const int64_t images = std::min(cores, CeilDiv(tiling->count, std::max(MIN_CORE_ELEMENTS, tiling->length)));
  std::size_t userBytes = 0;
  int64_t blocks = 1;
  if (tiling->length <= MAX_IMAGE && images > 1) {
    blocks = images;
    tiling->sumElements = static_cast<uint32_t>(MAX_IMAGE);
    userBytes =
        static_cast<std::size_t>(blocks * CeilDiv(tiling->length, IMAGE_ALIGNMENT) * IMAGE_ALIGNMENT) * sizeof(float);
    context->SetTilingKey(KEY_IMAGES);
    context->SetScheduleMode(BATCH_MODE);
  } else {
    blocks =
        host::Clamp(CeilDiv(tiling->length + (tiling->sorted != 0 ? tiling->count : 0), MIN_CORE_ELEMENTS), 1, cores);
    tiling->sumElements = static_cast<uint32_t>(SLICE);
    context->SetTilingKey(KEY_SLICES);
  }
  tiling->countPerCore = Share(tiling->count, blocks);
  tiling->lengthPerCore = Share(tiling->length, blocks);
  context->SetBlockDim(static_cast<uint32_t>(blocks));
  std::size_t* workspaces = context->GetWorkspaceSizes(1);
  if (workspaces == nullptr) {
    return ge::GRAPH_FAILED;
  }
  workspaces[0] = platform.GetLibApiWorkSpaceSize() + userBytes;
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* x = context->GetInputShape(X);
  const auto* index = context->GetInputShape(INDEX);
  if (x == nullptr || index == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *context->GetOutputShape(0) = *x;
  *context->GetOutputShape(1) = *index;
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(0, context->GetInputDataType(X));
  return context->SetOutputDataType(1, context->GetInputDataType(INDEX));
}

}  // namespace ge

namespace ops {

class IndexSelectForRank1Backward : public OpDef {
 public:
  explicit IndexSelectForRank1Backward(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> values = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16,
                                              ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16};
    const std::vector<ge::DataType> indices = {ge::DT_INT64, ge::DT_INT64, ge::DT_INT64,
                                               ge::DT_INT32, ge::DT_INT32, ge::DT_INT32};
    const std::vector<ge::Format> formats(values.size(), ge::FORMAT_ND);
    this->Input("grad_y").ParamType(REQUIRED).DataType(values).Format(formats).AutoContiguous();
    this->Input("x").ParamType(REQUIRED).DataType(values).Format(formats).AutoContiguous();
    this->Input("index").ParamType(REQUIRED).DataType(indices).Format(formats).AutoContiguous();
    this->Output("grad_x").ParamType(REQUIRED).DataType(values).Format(formats);
    this->Output("grad_index").ParamType(REQUIRED).DataType(indices).Format(formats);
    this->Attr("sorted").AttrType(OPTIONAL).Bool(false);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(IndexSelectForRank1Backward);

}  // namespace ops
