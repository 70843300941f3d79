// What forward and backward pass share on the host.
#pragma once
#include <algorithm>

#include "layer_host.h"

namespace projection {

constexpr int64_t PANEL_BYTES = 512 * 1024;  // of a panel's sums: they are in L2 when the vector unit wants them
constexpr int64_t PANEL_UNIT = 64;           // columns

enum Attribute : std::size_t { SPLIT, EPS };

// False where shapes or attributes do not fit together.
inline bool Describe(gert::TilingContext* context, std::size_t x, std::size_t weight, LayerTilingData& tiling) {
  const auto& rows = context->GetRequiredInputShape(x)->GetStorageShape();
  const auto& matrix = context->GetRequiredInputShape(weight)->GetStorageShape();
  const auto* split = context->GetAttrs()->GetListInt(SPLIT);
  if (rows.GetDimNum() != 2 || split == nullptr || split->GetSize() < 1 || split->GetSize() > LAYER_MAX_PARTS) {
    return false;
  }
  tiling.tokens = rows.GetDim(0);
  tiling.parts = static_cast<uint32_t>(split->GetSize());
  int64_t sum = 0;
  for (std::size_t part = 0; part < split->GetSize(); ++part) {
    const int64_t width = split->GetData()[part];
    if (!layer::InRange(width, layer::MAX_INNER)) {
      return false;
    }
    tiling.split[part] = static_cast<uint32_t>(width);
    sum += width;
  }
  if (!layer::InRange(rows.GetDim(1), LAYER_MAX_WIDTH) || sum > layer::MAX_INNER ||
      !layer::IsMatrix(matrix, rows.GetDim(1), sum)) {
    return false;
  }
  tiling.width = static_cast<uint32_t>(rows.GetDim(1));
  tiling.inner = static_cast<uint32_t>(sum);
  tiling.eps = *context->GetAttrs()->GetFloat(EPS);
  return true;
}

// Tokens of a block, and how many columns of a part the cube makes of it at once.
inline void SizePanels(const platform_ascendc::PlatformAscendC& platform, uint32_t dataBytes, LayerTilingData& tiling) {
  layer::SizeBlocks(platform, layer::FittingRows(tiling.width, dataBytes), tiling);
  const int64_t most = PANEL_BYTES / (static_cast<int64_t>(tiling.blockRows) * dataBytes) / PANEL_UNIT * PANEL_UNIT;
  const int64_t widest = *std::max_element(tiling.split, tiling.split + tiling.parts);
  const int64_t panels = host::CeilDiv(widest, most);
  const int64_t columns = hstu::RoundUpTo(host::CeilDiv(widest, panels), PANEL_UNIT);
  tiling.panelColumns = static_cast<uint32_t>(std::min<int64_t>(widest, columns));
}

template <typename Definition>
void DeclareRest(Definition& op) {
  layer::Declare(op.Input("x"), layer::RowsBetween());
  layer::Declare(op.Input("weight"), layer::Multiplied());
  op.Attr("split").AttrType(ops::REQUIRED).ListInt();
  op.Attr("eps").AttrType(ops::OPTIONAL).Float(1e-6f);
}

}  // namespace projection
