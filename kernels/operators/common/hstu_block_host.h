// Launches blocks whose two vector cores share their tasks (hstu_block.h).
#pragma once
#include "hstu_launch.h"

namespace hstu {

// What Launch does for tasks of one vector core each, and twice the blocks where the machine has them. The cores of a
// block wait for each other: the caller sets the schedule mode.
inline ge::graphStatus LaunchBlocks(gert::TilingContext* context, const platform_ascendc::PlatformAscendC& platform,
                                    const HstuTilingData& tiling, int64_t rows) {
  const auto status = Launch(context, platform, tiling, rows);
  if (status == ge::GRAPH_SUCCESS) {
    const uint64_t few = context->GetBlockDim();
    const uint64_t blocks = std::min<uint64_t>(platform.GetCoreNumAic(), 2 * few);
    context->SetBlockDim(static_cast<uint32_t>(blocks));
    context->GetWorkspaceSizes(1)[0] += 2 * (blocks - few) * tiling.coreElements * sizeof(float);
  }
  return status;
}

}  // namespace hstu
