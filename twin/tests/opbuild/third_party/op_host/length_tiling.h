// Elements in equal shares: what most elementwise operators tell their kernel.
#pragma once
#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(LengthTilingData)
TILING_DATA_FIELD_DEF(uint32_t, totalLength);
TILING_DATA_FIELD_DEF(uint32_t, perCore);
TILING_DATA_FIELD_DEF(uint32_t, tileLength);
END_TILING_DATA_DEF;

template <typename Tiling>
ge::graphStatus Save(gert::TilingContext* context, const Tiling& tiling, uint32_t blocks) {
  context->SetBlockDim(blocks);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  size_t* workspaces = context->GetWorkspaceSizes(1);
  workspaces[0] = 0;
  return ge::GRAPH_SUCCESS;
}

// Shares of whole 512 elements, so that no two cores meet in a line of the cache.
inline ge::graphStatus SplitLength(gert::TilingContext* context, uint32_t cores) {
  const uint32_t total = static_cast<uint32_t>(context->GetInputShape(0)->GetStorageShape().GetShapeSize());
  const uint32_t perCore = (total + cores - 1) / cores;
  LengthTilingData tiling;
  tiling.set_totalLength(total);
  tiling.set_perCore((perCore + 511) / 512 * 512);
  tiling.set_tileLength(512);
  return Save(context, tiling, (total + tiling.get_perCore() - 1) / tiling.get_perCore());
}

}  // namespace optiling
