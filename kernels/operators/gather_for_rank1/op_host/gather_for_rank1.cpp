#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include <algorithm>

#include "../op_kernel/gather_for_rank1_tiling.h"
#include "host_math.h"

namespace {

constexpr std::size_t X = 0;
constexpr std::size_t INDEX = 1;
constexpr int64_t UB_BLOCK = 32;
constexpr int64_t MAX_TABLE_BYTES = 96 * 1024;
constexpr uint32_t RESIDENT_TILE = 2048;  // of 2- and 4-byte elements
constexpr uint32_t SHORT_TILE = 1024;     // the others need more room for each
constexpr int64_t MIN_CORE_ELEMENTS = 1024;
constexpr int64_t SHARE_ALIGNMENT = 256;  // elements, so that every share starts on a 512-byte border of y
constexpr uint64_t DISTANT = 10;          // added to the key

using host::CeilDiv;

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<GatherForRank1TilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = GatherForRank1TilingData{};
  const auto& x = context->GetInputShape(X)->GetStorageShape();
  const auto& index = context->GetInputShape(INDEX)->GetStorageShape();
  const auto& y = context->GetOutputShape(0)->GetStorageShape();
  if (x.GetDimNum() != 1 || y.GetShapeSize() != index.GetShapeSize()) {
    return ge::GRAPH_PARAM_INVALID;
  }
  const int64_t width = ge::GetSizeByDataType(context->GetInputDesc(X)->GetDataType());
  tiling->length = x.GetDim(0);
  tiling->count = index.GetShapeSize();

  // x stays in the buffer if it fits and if reading it once costs less than a block for each index.
  const int64_t bytes = tiling->length * width;
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const int64_t cores = std::max<int64_t>(1, platform.GetCoreNumAiv());
  int64_t wanted = host::Clamp(CeilDiv(tiling->count, MIN_CORE_ELEMENTS), 1, cores);
  const bool resident = bytes <= MAX_TABLE_BYTES && bytes * wanted <= tiling->count * UB_BLOCK + UB_BLOCK;
  tiling->tileElements = resident && width < 8 ? RESIDENT_TILE : SHORT_TILE;
  tiling->tableBytes = static_cast<uint32_t>(resident ? (CeilDiv(bytes, UB_BLOCK) + 3) * UB_BLOCK : 0);
  tiling->countPerCore = CeilDiv(CeilDiv(tiling->count, wanted), SHARE_ALIGNMENT) * SHARE_ALIGNMENT;

  context->SetTilingKey(static_cast<uint64_t>(width) + (resident ? 0 : DISTANT));
  context->SetBlockDim(static_cast<uint32_t>(std::max<int64_t>(1, CeilDiv(tiling->count, tiling->countPerCore))));
  std::size_t* workspaces = context->GetWorkspaceSizes(1);
  if (workspaces == nullptr) {
    return ge::GRAPH_FAILED;
  }
  workspaces[0] = platform.GetLibApiWorkSpaceSize();
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  const auto* index = context->GetInputShape(INDEX);
  auto* y = context->GetOutputShape(0);
  if (index == nullptr || y == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *y = *index;
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  return context->SetOutputDataType(0, context->GetInputDataType(X));
}

}  // namespace ge

namespace ops {

class GatherForRank1 : public OpDef {
 public:
  explicit GatherForRank1(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> types = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16, ge::DT_INT32, ge::DT_INT64};
    std::vector<ge::DataType> values = types;
    values.insert(values.end(), types.begin(), types.end());
    std::vector<ge::DataType> indices(types.size(), ge::DT_INT64);
    indices.insert(indices.end(), types.size(), ge::DT_INT32);
    const std::vector<ge::Format> formats(values.size(), ge::FORMAT_ND);
    this->Input("x").ParamType(REQUIRED).DataType(values).Format(formats).AutoContiguous();
    this->Input("index").ParamType(REQUIRED).DataType(indices).Format(formats).AutoContiguous();
    this->Output("y").ParamType(REQUIRED).DataType(values).Format(formats);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(GatherForRank1);

}  // namespace ops
