#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include <algorithm>

#include "../op_kernel/asynchronous_complete_cumsum_tiling.h"
#include "host_math.h"

namespace {

constexpr int64_t MIN_SHARED_COLUMNS = 8192;  // shorter rows are not worth the meeting of the cores
constexpr int64_t MIN_PART = 4096;
constexpr int64_t MIN_CORE_ELEMENTS = 2048;
constexpr int64_t PART_ALIGNMENT = 512;  // elements, so that every part starts on a 512-byte border of x
constexpr uint64_t KEY_WHOLE_ROWS = 1;
constexpr uint64_t KEY_SHARED_ROW = 2;
constexpr uint64_t KEY_RESIDENT_PART = 3;
constexpr std::size_t SLOT_BYTES = 32;
constexpr uint32_t BATCH_MODE = 1;

using host::CeilDiv;

// Whether a core's part of a row fits the unified buffer beside the totals of all parts. Types that are summed as wider
// ones need room for both.
bool StaysResident(const platform_ascendc::PlatformAscendC& platform, ge::DataType type, int64_t chunk, int64_t parts) {
  if (type == ge::DT_FLOAT16 || type == ge::DT_BF16) {
    return false;
  }
  uint64_t ub = 0;
  platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);
  const int64_t slots = (parts + 2) * static_cast<int64_t>(SLOT_BYTES);
  return chunk * ge::GetSizeByDataType(type) + slots <= static_cast<int64_t>(ub);
}

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<AsynchronousCompleteCumsumTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = AsynchronousCompleteCumsumTilingData{};
  const auto& x = context->GetInputShape(0)->GetStorageShape();
  const auto& y = context->GetOutputShape(0)->GetStorageShape();
  if (x.GetDimNum() < 1 || x.GetDimNum() > 2 || y.GetDimNum() != x.GetDimNum()) {
    return ge::GRAPH_PARAM_INVALID;
  }
  const std::size_t last = x.GetDimNum() - 1;
  tiling->rows = last == 0 ? 1 : x.GetDim(0);
  tiling->columns = x.GetDim(last);
  if (y.GetDim(last) != tiling->columns + 1 || (last == 1 && y.GetDim(0) != tiling->rows)) {
    return ge::GRAPH_PARAM_INVALID;
  }

  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const int64_t cores = std::max<int64_t>(1, platform.GetCoreNumAiv());
  const int64_t width = ge::GetSizeByDataType(context->GetInputDesc(0)->GetDataType());
  // Two loads, two stores and, for 2-byte floats, two float images fit the unified buffer with these sizes.
  tiling->tileElements = width == 8 ? 4096 : 8192;

  const int64_t parts = std::min(cores / std::max<int64_t>(1, tiling->rows), CeilDiv(tiling->columns, MIN_PART));
  std::size_t userBytes = 0;
  if (tiling->columns >= MIN_SHARED_COLUMNS && parts > 1) {
    tiling->chunk = CeilDiv(CeilDiv(tiling->columns, parts), PART_ALIGNMENT) * PART_ALIGNMENT;
    tiling->parts = static_cast<uint32_t>(CeilDiv(tiling->columns, tiling->chunk));
    const int64_t blocks = tiling->rows * tiling->parts;
    userBytes = static_cast<std::size_t>(blocks) * SLOT_BYTES;
    const bool resident =
        StaysResident(platform, context->GetInputDesc(0)->GetDataType(), tiling->chunk, tiling->parts);
    context->SetTilingKey(resident ? KEY_RESIDENT_PART : KEY_SHARED_ROW);
    context->SetBlockDim(static_cast<uint32_t>(blocks));
    context->SetScheduleMode(BATCH_MODE);
  } else {
    const int64_t worth = CeilDiv(tiling->rows * (tiling->columns + 1), MIN_CORE_ELEMENTS);
    const int64_t wanted = std::max<int64_t>(1, std::min({cores, tiling->rows, worth}));
    tiling->rowsPerCore = CeilDiv(tiling->rows, wanted);
    tiling->parts = 1;
    context->SetTilingKey(KEY_WHOLE_ROWS);
    context->SetBlockDim(static_cast<uint32_t>(CeilDiv(tiling->rows, tiling->rowsPerCore)));
  }
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
  const auto* x = context->GetInputShape(0);
  auto* y = context->GetOutputShape(0);
  if (x == nullptr || y == nullptr || x->GetDimNum() < 1 || x->GetDimNum() > 2) {
    return ge::GRAPH_FAILED;
  }
  *y = *x;
  const std::size_t last = x->GetDimNum() - 1;
  y->SetDim(last, x->GetDim(last) < 0 ? -1 : x->GetDim(last) + 1);
  return ge::GRAPH_SUCCESS;
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  return context->SetOutputDataType(0, context->GetInputDataType(0));
}

}  // namespace ge

namespace ops {

class AsynchronousCompleteCumsum : public OpDef {
 public:
  explicit AsynchronousCompleteCumsum(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> types = {ge::DT_INT32, ge::DT_INT64, ge::DT_FLOAT, ge::DT_FLOAT16,
                                             ge::DT_BF16,  ge::DT_INT16, ge::DT_INT8,  ge::DT_UINT8};
    const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    this->Input("x").ParamType(REQUIRED).DataType(types).Format(formats).AutoContiguous();
    this->Output("y").ParamType(REQUIRED).DataType(types).Format(formats);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(AsynchronousCompleteCumsum);

}  // namespace ops
