// The split of an output's rows over the cores, shared by the permutation and its gradient.
#pragma once
#include <algorithm>
#include <cstdint>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

#include "host_math.h"

namespace permute {

constexpr int64_t MIN_CORE_BYTES = 16 * 1024;  // the smallest share that is worth a core's start
constexpr int64_t GM_ALIGNMENT = 512;

using host::CeilDiv;

inline int64_t Cores(gert::TilingContext* context) {
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  return std::max<int64_t>(1, platform.GetCoreNumAiv());
}

// Elements behind the first dimension.
inline int64_t RowElements(const gert::Shape& shape) {
  int64_t elements = 1;
  for (std::size_t i = 1; i < shape.GetDimNum(); ++i) {
    elements *= shape.GetDim(i);
  }
  return elements;
}

// Rows of each core: equal shares on 512-byte borders.
inline int64_t Share(int64_t rows, int64_t rowBytes, int64_t cores) {
  const int64_t bytes = std::max<int64_t>(1, rowBytes);
  const int64_t wanted = host::Clamp(CeilDiv(rows * bytes, MIN_CORE_BYTES), 1, cores);
  const int64_t unit = GM_ALIGNMENT / host::GreatestCommonDivisor(GM_ALIGNMENT, bytes);
  return std::max<int64_t>(1, CeilDiv(CeilDiv(rows, wanted), unit) * unit);
}

inline ge::graphStatus Launch(gert::TilingContext* context, int64_t blocks) {
  platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  context->SetTilingKey(0);
  context->SetBlockDim(static_cast<uint32_t>(std::max<int64_t>(1, blocks)));
  std::size_t* workspaces = context->GetWorkspaceSizes(1);
  if (workspaces == nullptr) {
    return ge::GRAPH_FAILED;
  }
  workspaces[0] = platform.GetLibApiWorkSpaceSize();
  return ge::GRAPH_SUCCESS;
}

inline bool IsVector(const gert::StorageShape* shape, int64_t entries) {
  return shape != nullptr && shape->GetStorageShape().GetDimNum() == 1 && shape->GetStorageShape().GetDim(0) == entries;
}

}  // namespace permute
