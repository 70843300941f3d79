// What the backward operators of this folder share: sizes of tiles and workspace, products, shapes of the gradients.
#pragma once
#include "hstu_launch.h"

namespace hstu {

constexpr int64_t LEAST_SEGMENT_BLOCKS = 4;  // a segment's sums are cleared and read once more

// Scores, products and results with two buffers each, sigma and the slope: bytes of unified buffer per element of a
// strip.
inline uint32_t BackwardBytes(uint32_t dataBytes) { return 6 * sizeof(float) + 2 * dataBytes; }

// grad is the gradient of the result: q's rows, v's width.
inline bool FitsResult(gert::TilingContext* context, const HstuTilingData& tiling) {
  gert::Shape result = context->GetRequiredInputShape(1)->GetStorageShape();
  result.SetDim(result.GetDimNum() - 1, tiling.valueDim);
  return context->GetRequiredInputShape(0)->GetStorageShape() == result;
}

// Tiles, the workspace of a core for them, and the segments. These follow from the shapes alone, so that the order of
// summation does not depend on the machine.
inline void SizeBackward(const Describer& describer, uint32_t dataBytes, HstuTilingData& tiling) {
  SizeTiles(describer, tiling);
  // A tile of the shared bias has a block of columns.
  const int64_t columns = std::max<int64_t>(RoundUpTo(tiling.blockRows, HSTU_COLUMN_UNIT), tiling.chunk);
  tiling.slotElements = static_cast<uint64_t>(tiling.blockRows * columns);
  tiling.accumulatorElements =
      dataBytes == sizeof(float) ? 0 : static_cast<uint64_t>(tiling.blockRows * RoundUpTo(tiling.dim, 16));
  tiling.coreElements = HSTU_SLOTS * 2 * tiling.slotElements + 2 * tiling.accumulatorElements;

  const int64_t longest = std::max<int64_t>(describer.LongestPossible(), 1);
  const int64_t wanted = HSTU_SEGMENTS / std::max<int64_t>(tiling.batch * tiling.heads, 1);
  const int64_t parts = std::min(std::max<int64_t>(wanted, 1), HSTU_SEGMENTS);
  const int64_t rows = std::max((longest + parts - 1) / parts, LEAST_SEGMENT_BLOCKS * tiling.blockRows);
  tiling.segmentRows = RoundUpTo(rows, tiling.blockRows);
  tiling.segments = (longest + tiling.segmentRows - 1) / tiling.segmentRows;
  const int64_t widths = RoundUpTo(tiling.valueDim, 16) + RoundUpTo(tiling.dim, 16);
  tiling.keySumElements = static_cast<uint64_t>(tiling.heads * tiling.keyRows * widths);
}

inline bool DescribeBackwardProducts(const platform_ascendc::PlatformAscendC& platform, ge::DataType type,
                                     HstuTilingData& tiling) {
  const int64_t width = std::max(tiling.dim, tiling.valueDim);
  const int64_t rows = tiling.blockRows;
  const int64_t columns = std::max<int64_t>(rows, tiling.chunk);
  return DescribeProduct(platform, type, false, true, rows, columns, width, tiling.scores) &&
         DescribeProduct(platform, type, true, false, columns, width, rows, tiling.values) &&
         DescribeProduct(platform, type, false, false, rows, width, columns, tiling.gradients);
}

inline ge::graphStatus LaunchBackward(gert::TilingContext* context, const platform_ascendc::PlatformAscendC& platform,
                                      const HstuTilingData& tiling) {
  // All cores meet before the segments are added up.
  context->SetScheduleMode(1);
  const auto status = Launch(context, platform, tiling, std::max(tiling.queryRows, tiling.keyRows));
  if (status == ge::GRAPH_SUCCESS) {
    context->GetWorkspaceSizes(1)[0] +=
        static_cast<std::size_t>(tiling.segments) * tiling.keySumElements * sizeof(float);
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
