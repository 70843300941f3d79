// Host side shared by the jagged operators: the type table, the pattern of a fill, the split over cores.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include "data_faults_host.h"
#include "jagged_tiling.h"

namespace jagged {

constexpr uint32_t FILL_BYTES = 16 * 1024;
constexpr uint32_t MAX_TILE_BYTES = 80 * 1024;
constexpr int64_t MIN_CORE_BYTES = 16 * 1024;
constexpr int64_t GM_ALIGNMENT = 512;

// One column per (value type, offset type).
inline std::vector<ge::DataType> ValueTypes() {
  const std::vector<ge::DataType> types = {ge::DT_FLOAT,  ge::DT_FLOAT16, ge::DT_BF16,     ge::DT_INT8,
                                           ge::DT_UINT8,  ge::DT_INT16,   ge::DT_INT32,    ge::DT_INT64,
                                           ge::DT_DOUBLE, ge::DT_BOOL,    ge::DT_COMPLEX64};
  std::vector<ge::DataType> columns = types;
  columns.insert(columns.end(), types.begin(), types.end());
  return columns;
}

inline std::vector<ge::DataType> OffsetTypes() {
  std::vector<ge::DataType> columns(ValueTypes().size(), ge::DT_INT32);
  std::fill(columns.begin() + static_cast<std::ptrdiff_t>(columns.size() / 2), columns.end(), ge::DT_INT64);
  return columns;
}

inline std::vector<ge::Format> Formats() { return std::vector<ge::Format>(ValueTypes().size(), ge::FORMAT_ND); }

// The element's bit pattern, repeated over 8 bytes.
inline uint64_t Repeated(uint64_t bits, int64_t width) {
  if (width >= 8) {
    return bits;
  }
  const uint64_t mask = (1ULL << (8 * width)) - 1;
  uint64_t pattern = 0;
  for (int64_t at = 0; at < 8; at += width) {
    pattern |= (bits & mask) << (8 * at);
  }
  return pattern;
}

// Reads the levels of offsets (declared input `input`) into the tiling data. False when their shapes are wrong.
inline bool DescribeOffsets(const gert::TilingContext* context, std::size_t input, JaggedTilingData& tiling) {
  const auto* instances = context->GetIrInputInstanceInfo(input);
  if (instances == nullptr || instances->GetInstanceNum() == 0 || instances->GetInstanceNum() > JAGGED_MAX_DIMS) {
    return false;
  }
  tiling.dims = static_cast<uint32_t>(instances->GetInstanceNum());
  for (uint32_t k = 0; k < tiling.dims; ++k) {
    const auto& shape = context->GetDynamicInputShape(input, k)->GetStorageShape();
    if (shape.GetDimNum() != 1 || shape.GetDim(0) < 1) {
      return false;
    }
    tiling.nodes[k] = shape.GetDim(0) - 1;
  }
  return true;
}

// Equal shares of the output's bytes, on 512-byte borders; the smallest share is worth a core's start.
inline ge::graphStatus SplitOutput(gert::TilingContext* context, JaggedTilingData& tiling, int64_t width) {
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  uint64_t ubBytes = 0;
  platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ubBytes);
  const uint64_t tileBytes = (ubBytes - FILL_BYTES) / 2 / GM_ALIGNMENT * GM_ALIGNMENT;
  tiling.tileBytes = static_cast<uint32_t>(std::min<uint64_t>(tileBytes, MAX_TILE_BYTES));
  tiling.fillBytes = FILL_BYTES;

  const int64_t bytes = tiling.totalElements * width;
  const int64_t wanted = std::max<int64_t>(1, (bytes + MIN_CORE_BYTES - 1) / MIN_CORE_BYTES);
  const int64_t cores = std::min<int64_t>(std::max<uint32_t>(1, platform.GetCoreNumAiv()), wanted);
  const int64_t share = (bytes + cores - 1) / cores;
  const int64_t aligned = (share + GM_ALIGNMENT - 1) / GM_ALIGNMENT * GM_ALIGNMENT;
  tiling.elementsPerCore = std::max<int64_t>(1, aligned / width);
  const int64_t blocks = (tiling.totalElements + tiling.elementsPerCore - 1) / tiling.elementsPerCore;

  context->SetTilingKey(static_cast<uint64_t>(width));
  context->SetBlockDim(static_cast<uint32_t>(std::max<int64_t>(1, blocks)));
  std::size_t* workspaces = context->GetWorkspaceSizes(1);
  if (workspaces == nullptr) {
    return ge::GRAPH_FAILED;
  }
  workspaces[0] = platform.GetLibApiWorkSpaceSize();
  return ge::GRAPH_SUCCESS;
}

}  // namespace jagged
