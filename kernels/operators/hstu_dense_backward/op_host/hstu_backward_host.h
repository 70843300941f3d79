// What the backward operators of this folder share: sizes of tiles and workspace, products, shapes of the gradients.
#pragma once
#include "hstu_launch.h"

namespace hstu {

// Scores, products and results with two buffers each, sigma and the slope: bytes of unified buffer per element of a
// strip.
inline uint32_t BackwardBytes(uint32_t dataBytes) { return 6 * sizeof(float) + 2 * dataBytes; }

// grad is the gradient of the result: q's rows, v's width.
inline bool FitsResult(gert::TilingContext* context, const HstuTilingData& tiling) {
  gert::Shape result = context->GetRequiredInputShape(1)->GetStorageShape();
  result.SetDim(result.GetDimNum() - 1, tiling.valueDim);
  return context->GetRequiredInputShape(0)->GetStorageShape() == result;
}

// Tiles, and the workspace of a core for them.
inline void SizeBackward(const Describer& describer, uint32_t dataBytes, HstuTilingData& tiling) {
  SizeTiles(describer, tiling);
  // A tile is a block by a chunk either way round, its columns padded.
  const int64_t block = RoundUpTo(tiling.blockRows, HSTU_COLUMN_UNIT);
  tiling.slotElements = static_cast<uint64_t>(block * tiling.chunk);
  const int64_t widths = RoundUpTo(tiling.valueDim, 16) + RoundUpTo(tiling.dim, 16);
  tiling.accumulatorElements = dataBytes == sizeof(float) ? 0 : static_cast<uint64_t>(tiling.blockRows * widths);
  tiling.coreElements = HSTU_SLOTS * 2 * tiling.slotElements + 2 * tiling.accumulatorElements;
}

inline bool DescribeBackwardProducts(const platform_ascendc::PlatformAscendC& platform, ge::DataType type,
                                     HstuTilingData& tiling) {
  const int64_t width = std::max(tiling.dim, tiling.valueDim);
  const int64_t side = std::max<int64_t>(tiling.blockRows, tiling.chunk);
  return DescribeProduct(platform, type, false, true, side, side, width, tiling.scores) &&
         DescribeProduct(platform, type, true, false, tiling.blockRows, width, tiling.chunk, tiling.values) &&
         DescribeProduct(platform, type, false, false, tiling.blockRows, width, tiling.chunk, tiling.gradients);
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
