// What the backward operators of this folder share: sizes of tiles and workspace, products, shapes of the gradients.
#pragma once
#include <cmath>

#include "hstu_block_host.h"

namespace hstu {

constexpr int64_t SEGMENTS = 64;  // of all heads, or of one: enough to share out over the blocks

// Scores, products and results with two buffers each, sigma and the slope: bytes of unified buffer per element of a
// strip.
inline uint32_t BackwardBytes(uint32_t dataBytes) { return 6 * sizeof(float) + 2 * dataBytes; }

// grad is the gradient of the result: q's rows, v's width.
inline bool FitsResult(gert::TilingContext* context, const HstuTilingData& tiling) {
  gert::Shape result = context->GetRequiredInputShape(1)->GetStorageShape();
  result.SetDim(result.GetDimNum() - 1, tiling.valueDim);
  return context->GetRequiredInputShape(0)->GetStorageShape() == result;
}

// Rows of a head's slabs beyond one for each query. A sequence has one segment more for each whole part of the cells
// that it holds, one of `segments`: at most `segments` times the longest sequence, none shorter than the least length,
// and none where all sequences are as long as the longest.
inline int64_t SpareSlabRows(int64_t longest, const HstuTilingData& tiling) {
  const double rows = static_cast<double>(std::max<int64_t>(tiling.queryRows, 1));
  const double mean = rows / static_cast<double>(std::max<int64_t>(tiling.batch, 1));
  const double parts = static_cast<double>(tiling.segments) * (longest / mean) * (longest / rows);
  const int64_t byLength = (longest - 1) / (HSTU_SEGMENT_BLOCKS * tiling.blockRows) * tiling.queryRows;
  const double byCells = (std::ceil(parts) - 1) * rows;
  const int64_t most = std::min(tiling.segments * longest, byLength);
  return byCells < static_cast<double>(most) ? std::max<int64_t>(static_cast<int64_t>(byCells), 0) : most;
}

// Tiles, the workspace of a block for them, and the slabs of all segments.
inline void SizeBackward(const Describer& describer, uint32_t dataBytes, HstuTilingData& tiling) {
  SizeTiles(describer, tiling);
  // A tile is a block by a chunk either way round, its columns padded.
  const int64_t block = RoundUpTo(tiling.blockRows, HSTU_COLUMN_UNIT);
  const int64_t chunk = tiling.chunk;
  // Each core of a block sums tiles of a shared bias of its own, a block by a block, in half of the slots.
  tiling.slotElements = static_cast<uint64_t>(block * (tiling.sumsBias != 0 ? std::max(chunk, 2 * block) : chunk));
  const int64_t widths = RoundUpTo(tiling.valueDim, 16) + RoundUpTo(tiling.dim, 16);
  tiling.accumulatorElements = dataBytes == sizeof(float) ? 0 : static_cast<uint64_t>(tiling.blockRows * widths);
  tiling.coreElements = (HSTU_SLOTS * 2 * tiling.slotElements + tiling.accumulatorElements) / 2;

  tiling.segments = (SEGMENTS + tiling.heads - 1) / std::max<int64_t>(tiling.heads, 1);
  tiling.slabRows = tiling.queryRows + SpareSlabRows(std::max<int64_t>(describer.LongestPossible(), 1), tiling);
}

inline bool DescribeBackwardProducts(const platform_ascendc::PlatformAscendC& platform, ge::DataType type,
                                     HstuTilingData& tiling) {
  const int64_t width = std::max(tiling.dim, tiling.valueDim);
  const int64_t side = std::max<int64_t>(tiling.blockRows, tiling.chunk);
  return DescribeProduct(platform, type, false, true, side, side, width, tiling.scores) &&
         DescribeProduct(platform, type, true, false, tiling.blockRows, width, tiling.chunk, tiling.values) &&
         DescribeProduct(platform, type, false, false, tiling.chunk, width, tiling.blockRows, tiling.gradients);
}

inline ge::graphStatus LaunchBackward(gert::TilingContext* context, const platform_ascendc::PlatformAscendC& platform,
                                      ge::DataType type, const HstuTilingData& tiling) {
  // All cores meet before the segments are added up.
  context->SetScheduleMode(1);
  const auto status = LaunchBlocks(context, platform, tiling, std::max(tiling.queryRows, tiling.keyRows));
  if (status == ge::GRAPH_SUCCESS) {
    const int64_t pitch = RoundUpTo(tiling.dim, 32 / ge::GetSizeByDataType(type));
    context->GetWorkspaceSizes(1)[0] +=
        static_cast<std::size_t>(tiling.heads * tiling.slabRows * pitch) * sizeof(float);
  }
  return status;
}

// Gradients look like what they belong to: outputs [0, count) like inputs from 1 on.
inline ge::graphStatus InferGradients(gert::InferShapeContext* context, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto* input = context->GetRequiredInputShape(i + 1);
    if (input == nullptr || context->GetOutputShape(i) == nullptr) {
      return ge::GRAPH_FAILED;
    }
    *context->GetOutputShape(i) = *input;
  }
  return ge::GRAPH_SUCCESS;
}

}  // namespace hstu
