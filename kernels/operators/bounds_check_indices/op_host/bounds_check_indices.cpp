#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include <algorithm>

#include "../op_kernel/bounds_check_indices_tiling.h"
#include "data_faults_host.h"
#include "host_math.h"

namespace {

constexpr std::size_t ROWS = 0;
constexpr std::size_t INDICES = 1;
constexpr std::size_t OFFSETS = 2;
constexpr std::size_t WARNING = 3;
constexpr std::size_t FIRST_BAGS = 4;
constexpr std::size_t MODE = 0;
constexpr std::size_t FAULTS = 4;  // of the outputs
constexpr int64_t FATAL_MODE = 0;
constexpr int64_t WARNING_MODE = 1;
constexpr int64_t IGNORE_MODE = 2;
constexpr uint32_t OFFSET_TILE = 4096;
constexpr uint32_t INDEX_TILE = 2048;  // 32 repeats of int32 lanes
constexpr int64_t MIN_CORE_BAGS = 2048;
constexpr int64_t MIN_CORE_INDICES = 4096;
constexpr int64_t SHARE_ALIGNMENT = 128;  // elements: shares of int32 and int64 start on 512-byte borders
constexpr int64_t RECORD_WORDS = 8;
constexpr std::size_t MEETINGS = 3;
constexpr uint32_t BATCH_MODE = 1;

using host::CeilDiv;

int64_t Share(int64_t elements, int64_t blocks) {
  return std::max<int64_t>(1, CeilDiv(CeilDiv(elements, blocks), SHARE_ALIGNMENT)) * SHARE_ALIGNMENT;
}

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<BoundsCheckIndicesTilingData>();
  if (tiling == nullptr) {
    return ge::GRAPH_FAILED;
  }
  *tiling = BoundsCheckIndicesTilingData{};
  const auto& rows = context->GetRequiredInputShape(ROWS)->GetStorageShape();
  const auto& indices = context->GetRequiredInputShape(INDICES)->GetStorageShape();
  const auto& offsets = context->GetRequiredInputShape(OFFSETS)->GetStorageShape();
  const auto* firstBags = context->GetOptionalInputShape(FIRST_BAGS);
  const auto* mode = context->GetAttrs()->GetInt(MODE);
  if (rows.GetDimNum() != 1 || indices.GetDimNum() != 1 || offsets.GetDimNum() != 1 || offsets.GetDim(0) < 1 ||
      context->GetRequiredInputShape(WARNING)->GetStorageShape().GetShapeSize() != 1 || mode == nullptr ||
      *mode < FATAL_MODE || *mode > IGNORE_MODE || !fault::Fits(context, FAULTS)) {
    return ge::GRAPH_PARAM_INVALID;
  }
  tiling->tables = rows.GetDim(0);
  tiling->bags = offsets.GetDim(0) - 1;
  tiling->count = indices.GetDim(0);
  if (firstBags != nullptr) {
    const auto& shape = firstBags->GetStorageShape();
    if (shape.GetDimNum() != 1 || shape.GetDim(0) != tiling->tables + 1) {
      return ge::GRAPH_PARAM_INVALID;
    }
    tiling->batch = -1;
  } else {
    if (tiling->tables == 0 ? tiling->bags != 0 : tiling->bags % tiling->tables != 0) {
      return ge::GRAPH_PARAM_INVALID;
    }
    tiling->batch = tiling->tables == 0 ? 0 : tiling->bags / tiling->tables;
  }
  tiling->offsetTile = OFFSET_TILE;
  tiling->indexTile = INDEX_TILE;
  tiling->repair = *mode == FATAL_MODE ? 0 : 1;
  tiling->countWarnings = *mode == WARNING_MODE ? 1 : 0;

  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  const int64_t cores = std::max<int64_t>(1, platform.GetCoreNumAiv());
  const int64_t wanted = std::max(CeilDiv(tiling->bags, MIN_CORE_BAGS), CeilDiv(tiling->count, MIN_CORE_INDICES));
  const int64_t blocks = host::Clamp(wanted, 1, cores);
  tiling->bagsPerCore = Share(tiling->bags, blocks);
  tiling->indicesPerCore = Share(tiling->count, blocks);
  context->SetTilingKey(0);
  context->SetBlockDim(static_cast<uint32_t>(blocks));
  context->SetScheduleMode(BATCH_MODE);
  std::size_t* workspaces = context->GetWorkspaceSizes(1);
  if (workspaces == nullptr) {
    return ge::GRAPH_FAILED;
  }
  workspaces[0] =
      platform.GetLibApiWorkSpaceSize() + MEETINGS * static_cast<std::size_t>(blocks) * RECORD_WORDS * sizeof(int64_t);
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ge {

static ge::graphStatus InferShape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = *context->GetRequiredInputShape(INDICES);
  *context->GetOutputShape(1) = *context->GetRequiredInputShape(OFFSETS);
  *context->GetOutputShape(2) = *context->GetRequiredInputShape(WARNING);
  auto* report = context->GetOutputShape(3);
  report->SetDimNum(0);
  report->AppendDim(RECORD_WORDS);
  return fault::InferShape(context, FAULTS);
}

static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(0, context->GetRequiredInputDataType(INDICES));
  context->SetOutputDataType(1, context->GetRequiredInputDataType(OFFSETS));
  context->SetOutputDataType(2, ge::DT_INT64);
  context->SetOutputDataType(FAULTS, ge::DT_INT64);
  return context->SetOutputDataType(3, ge::DT_INT64);
}

}  // namespace ge

namespace ops {

// The caller gives the same memory for indices and indices_out, offsets and offsets_out, warning and warning_out: only
// what is repaired is written.
class BoundsCheckIndices : public OpDef {
 public:
  explicit BoundsCheckIndices(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> indices = {ge::DT_INT64, ge::DT_INT64, ge::DT_INT32, ge::DT_INT32};
    const std::vector<ge::DataType> offsets = {ge::DT_INT64, ge::DT_INT32, ge::DT_INT64, ge::DT_INT32};
    const std::vector<ge::DataType> longs(indices.size(), ge::DT_INT64);
    const std::vector<ge::Format> formats(indices.size(), ge::FORMAT_ND);
    this->Input("rows_per_table").ParamType(REQUIRED).DataType(longs).Format(formats).AutoContiguous();
    this->Input("indices").ParamType(REQUIRED).DataType(indices).Format(formats);
    this->Input("offsets").ParamType(REQUIRED).DataType(offsets).Format(formats);
    this->Input("warning").ParamType(REQUIRED).DataType(longs).Format(formats);
    this->Input("b_offsets").ParamType(OPTIONAL).DataType(longs).Format(formats).AutoContiguous();
    fault::DeclareInput(*this, formats);
    this->Output("indices_out").ParamType(REQUIRED).DataType(indices).Format(formats);
    this->Output("offsets_out").ParamType(REQUIRED).DataType(offsets).Format(formats);
    this->Output("warning_out").ParamType(REQUIRED).DataType(longs).Format(formats);
    this->Output("report").ParamType(REQUIRED).DataType(longs).Format(formats);
    fault::DeclareOutput(*this, formats);
    this->Attr("mode").AttrType(REQUIRED).Int();
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
  }
};

OP_ADD(BoundsCheckIndices);

}  // namespace ops
