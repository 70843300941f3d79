// What forward and backward pass share on the host.
#pragma once
#include "layer_host.h"

namespace gate {

enum Attribute : std::size_t { SCALE, EPS };

struct Inputs {
  std::size_t attended;
  std::size_t u;
  std::size_t rows;  // [L, D]: x, or the gradient of the result
  std::size_t weight;
  std::size_t keep;
};

// False where shapes or attributes do not fit together.
inline bool Describe(gert::TilingContext* context, const Inputs& inputs, LayerTilingData& tiling) {
  const auto& attended = context->GetInputShape(inputs.attended)->GetStorageShape();
  const auto& weight = context->GetInputShape(inputs.weight)->GetStorageShape();
  if (attended.GetDimNum() != 2 || weight.GetDimNum() != 2) {
    return false;
  }
  const int64_t tokens = attended.GetDim(0);
  const int64_t width = attended.GetDim(1);
  const int64_t dim = weight.GetDim(0);
  const auto* keep = context->GetOptionalInputShape(inputs.keep);
  if (!layer::InRange(width, LAYER_MAX_WIDTH) || !layer::InRange(dim, LAYER_MAX_WIDTH) || weight.GetDim(1) != width ||
      !layer::IsMatrix(context->GetInputShape(inputs.u)->GetStorageShape(), tokens, width) ||
      !layer::IsMatrix(context->GetInputShape(inputs.rows)->GetStorageShape(), tokens, dim) ||
      (keep != nullptr && !layer::IsMatrix(keep->GetStorageShape(), tokens, width))) {
    return false;
  }
  tiling.tokens = tokens;
  tiling.width = static_cast<uint32_t>(width);
  tiling.inner = static_cast<uint32_t>(dim);
  tiling.hasKeep = keep != nullptr ? 1 : 0;
  tiling.scale = *context->GetAttrs()->GetFloat(SCALE);
  tiling.eps = *context->GetAttrs()->GetFloat(EPS);
  return true;
}

template <typename Definition>
void DeclareRest(Definition& op, std::size_t combinations) {
  layer::Declare(op.Input("keep"), layer::Types(combinations, ge::DT_UINT8), ops::OPTIONAL);
  op.Attr("scale").AttrType(ops::OPTIONAL).Float(1.0f);
  op.Attr("eps").AttrType(ops::OPTIONAL).Float(1e-6f);
}

}  // namespace gate
