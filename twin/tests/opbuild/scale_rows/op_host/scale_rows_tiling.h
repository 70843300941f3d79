#pragma once
#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(RowRange)
TILING_DATA_FIELD_DEF(uint8_t, used);
TILING_DATA_FIELD_DEF(int64_t, rows);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(RowRangeOp, RowRange)

BEGIN_TILING_DATA_DEF(ScaleRowsTilingData)
TILING_DATA_FIELD_DEF(uint32_t, columns);
TILING_DATA_FIELD_DEF_ARR(int16_t, 3, tag);
TILING_DATA_FIELD_DEF(float, factor);
TILING_DATA_FIELD_DEF_STRUCT(RowRange, range);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ScaleRows, ScaleRowsTilingData)

}  // namespace optiling
