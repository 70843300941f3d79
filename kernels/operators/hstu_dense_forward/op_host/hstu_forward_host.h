// What the forward operators of this folder share: sizes of tiles and workspace, products, the shape of the result.
#pragma once
#include "hstu_block_host.h"

namespace hstu {

constexpr std::size_t FAULTS = 1;  // of the outputs

// Scores and weights with two buffers each, and the exponential: bytes of unified buffer per element of a strip.
inline uint32_t ForwardBytes(uint32_t dataBytes) { return 2 * sizeof(float) + 2 * dataBytes + sizeof(float); }

// Tiles, and the workspace of a block for them.
inline void SizeForward(const Describer& describer, uint32_t dataBytes, HstuTilingData& tiling) {
  SizeTiles(describer, tiling);
  tiling.slotElements = static_cast<uint64_t>(tiling.blockRows) * tiling.chunk;
  tiling.accumulatorElements =
      dataBytes == sizeof(float) ? 0 : static_cast<uint64_t>(tiling.blockRows * RoundUpTo(tiling.valueDim, 16));
  tiling.coreElements = (HSTU_SLOTS * tiling.slotElements + tiling.accumulatorElements) / 2;
}

inline bool DescribeForwardProducts(const platform_ascendc::PlatformAscendC& platform, ge::DataType type,
                                    HstuTilingData& tiling) {
  return DescribeProduct(platform, type, false, true, tiling.blockRows, tiling.chunk, tiling.dim, tiling.scores) &&
         DescribeProduct(platform, type, false, false, tiling.blockRows, tiling.valueDim, tiling.chunk, tiling.values);
}

inline ge::graphStatus LaunchForward(gert::TilingContext* context, const platform_ascendc::PlatformAscendC& platform,
                                     const HstuTilingData& tiling) {
  context->SetScheduleMode(1);
  return LaunchBlocks(context, platform, tiling, tiling.queryRows);
}

// The result has q's rows and v's width.
inline ge::graphStatus InferOutput(gert::InferShapeContext* context) {
  const auto* q = context->GetRequiredInputShape(0);
  const auto* v = context->GetRequiredInputShape(2);
  auto* output = context->GetOutputShape(0);
  if (q == nullptr || v == nullptr || output == nullptr || q->GetDimNum() == 0 || v->GetDimNum() != q->GetDimNum()) {
    return ge::GRAPH_FAILED;
  }
  *output = *q;
  output->SetDim(q->GetDimNum() - 1, v->GetDim(q->GetDimNum() - 1));
  return fault::InferShape(context, FAULTS);
}

inline ge::graphStatus InferOutputType(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(FAULTS, ge::DT_INT64);
  return context->SetOutputDataType(0, context->GetRequiredInputDataType(0));
}

}  // namespace hstu
