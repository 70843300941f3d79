// Host side of the operators around HSTU's attention: sizes of blocks, strips and workspace, and the launch.
#pragma once
#include "host_math.h"
#include "hstu_host.h"
#include "layer_tiling.h"

namespace layer {

constexpr int64_t MAX_INNER = 16384;           // columns of a product
constexpr uint64_t UB_BESIDE = 28 * 1024;      // the norm's buffers and the bias
constexpr int64_t OPERAND_BYTES = 256 * 1024;  // of a product's left side: half of L1, weight passes through the rest
constexpr int64_t MOST_ROWS = 256;

inline bool IsMatrix(const gert::Shape& shape, int64_t rows, int64_t columns) {
  return shape.GetDimNum() == 2 && shape.GetDim(0) == rows && shape.GetDim(1) == columns;
}

inline bool InRange(int64_t width, int64_t most) { return width >= 1 && width <= most; }

// Tokens of a block: up to `most`, a multiple of 16, and so many that the cores have equal numbers of blocks.
inline void SizeBlocks(const platform_ascendc::PlatformAscendC& platform, int64_t most, LayerTilingData& tiling) {
  const int64_t cores = std::max<int64_t>(1, 2 * static_cast<int64_t>(platform.GetCoreNumAic()));
  const int64_t share = std::max<int64_t>(1, host::CeilDiv(tiling.tokens, cores));
  const int64_t rows = hstu::RoundUpTo(host::CeilDiv(share, host::CeilDiv(share, most)), 16);
  tiling.blockRows = static_cast<uint32_t>(rows);
  tiling.blocks = host::CeilDiv(tiling.tokens, rows);
}

// The most tokens whose rows, the left side of a product, fit in half of L1. Weight is read once for each block.
inline int64_t FittingRows(int64_t columns, uint32_t dataBytes) {
  return host::Clamp(OPERAND_BYTES / (columns * dataBytes) / 16 * 16, hstu::BLOCK_ROWS, MOST_ROWS);
}

inline uint64_t BlockElements(const LayerTilingData& tiling, int64_t columns) {
  return static_cast<uint64_t>(tiling.blockRows * hstu::RoundUpTo(columns, LAYER_UNIT));
}

// `floats`: fp32 strips beside those of the queues (layer_strips.h); `storedBytes`: of the widest type that is stored.
inline void SizeStrips(const platform_ascendc::PlatformAscendC& platform, uint32_t floats, uint32_t storedBytes,
                       LayerTilingData& tiling) {
  uint64_t ub = 0;
  platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);
  const uint64_t perElement = 3 * sizeof(float) + 2 * storedBytes + floats * sizeof(float) + sizeof(uint16_t);
  const uint64_t fits = (ub - UB_BESIDE) / perElement / 64 * 64;
  tiling.stripElements = static_cast<uint32_t>(fits);
}

inline ge::graphStatus Launch(gert::TilingContext* context, const platform_ascendc::PlatformAscendC& platform,
                              uint32_t dataBytes, LayerTilingData& tiling) {
  tiling.coreBytes = tiling.sumBlocks * tiling.sumElements * sizeof(float) + 2 * tiling.operandElements * dataBytes;
  const int64_t blocks = std::min<int64_t>(platform.GetCoreNumAic(), (tiling.blocks + 1) / 2);
  context->SetBlockDim(static_cast<uint32_t>(std::max<int64_t>(blocks, 1)));
  context->SetTilingKey(0);
  std::size_t* workspaces = context->GetWorkspaceSizes(1);
  if (workspaces == nullptr) {
    return ge::GRAPH_FAILED;
  }
  workspaces[0] = platform.GetLibApiWorkSpaceSize() + 2 * context->GetBlockDim() * tiling.coreBytes;
  return ge::GRAPH_SUCCESS;
}

inline uint32_t BytesOf(ge::DataType type) { return static_cast<uint32_t>(ge::GetSizeByDataType(type)); }

// One type for all tensors; or, as under autocast, rows between layers of fp32 beside 16 bits for what the cube
// multiplies.
using Types = std::vector<ge::DataType>;
inline Types Alike() { return {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16}; }
inline Types Multiplied() { return {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT16, ge::DT_BF16}; }
inline Types RowsBetween() { return {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT, ge::DT_FLOAT}; }

template <typename Parameter>
Parameter& Typed(Parameter& parameter, const Types& types, ops::Option option = ops::REQUIRED) {
  return parameter.ParamType(option).DataType(types).Format(std::vector<ge::Format>(types.size(), ge::FORMAT_ND));
}

template <typename Parameter>
void Declare(Parameter& parameter, const Types& types, ops::Option option = ops::REQUIRED) {
  Typed(parameter, types, option).AutoContiguous();
}

}  // namespace layer
