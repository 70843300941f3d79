// Rows of a matrix, all of them on one core.
#pragma once
#include "length_tiling.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(RowTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);
TILING_DATA_FIELD_DEF(uint32_t, columns);
TILING_DATA_FIELD_DEF(float, epsilon);
END_TILING_DATA_DEF;

inline ge::graphStatus SplitRows(gert::TilingContext* context, float epsilon) {
  const gert::Shape& shape = context->GetInputShape(0)->GetStorageShape();
  const size_t last = shape.GetDimNum() - 1;
  RowTilingData tiling;
  tiling.set_columns(static_cast<uint32_t>(shape.GetDim(last)));
  tiling.set_rows(static_cast<uint32_t>(shape.GetShapeSize() / shape.GetDim(last)));
  tiling.set_epsilon(epsilon);
  return Save(context, tiling, 1);
}

}  // namespace optiling

namespace ge {

inline ge::graphStatus RowShape(gert::InferShapeContext* context) {
  const gert::Shape* x = context->GetInputShape(0);
  gert::Shape* y = context->GetOutputShape(0);
  y->SetDimNum(0);
  for (size_t i = 0; i + 1 < x->GetDimNum(); ++i) {
    y->AppendDim(x->GetDim(i));
  }
  return GRAPH_SUCCESS;
}

}  // namespace ge
