// Host-side tiling: of Matmul here, any numbers that keep the rules of matmul_tiling.h; and the library functions'.
#pragma once
#include "register/tilingdata_base.h"
#include "tiling/layernorm_grad_tiling.h"
#include "tiling/layernorm_tiling.h"
#include "tiling/matmul_tiling.h"
#include "tiling/rmsnorm_tiling.h"
#include "tiling/softmax_tiling.h"
#include "tiling/tmp_sizes.h"

namespace optiling {

// clang-format off: it would indent each line of this list further than the one before
#define TWIN_CUBE_FIELDS(FIELD)                                                                                        \
    FIELD(usedCoreNum) FIELD(M) FIELD(N) FIELD(Ka) FIELD(Kb) FIELD(singleCoreM) FIELD(singleCoreN) FIELD(singleCoreK)  \
    FIELD(baseM) FIELD(baseN) FIELD(baseK) FIELD(depthA1) FIELD(depthB1) FIELD(stepM) FIELD(stepN) FIELD(isBias)       \
    FIELD(transLength) FIELD(iterateOrder) FIELD(shareMode) FIELD(shareL1Size) FIELD(shareL0CSize) FIELD(shareUbSize)  \
    FIELD(batchM) FIELD(batchN) FIELD(singleBatchM) FIELD(singleBatchN) FIELD(stepKa) FIELD(stepKb)                    \
    FIELD(depthAL1CacheUB) FIELD(depthBL1CacheUB) FIELD(dbL0A) FIELD(dbL0B) FIELD(dbL0C) FIELD(ALayoutInfoB)           \
    FIELD(ALayoutInfoS) FIELD(ALayoutInfoN) FIELD(ALayoutInfoG) FIELD(ALayoutInfoD) FIELD(BLayoutInfoB)                \
    FIELD(BLayoutInfoS) FIELD(BLayoutInfoN) FIELD(BLayoutInfoG) FIELD(BLayoutInfoD) FIELD(CLayoutInfoB)                \
    FIELD(CLayoutInfoS1) FIELD(CLayoutInfoN) FIELD(CLayoutInfoG) FIELD(CLayoutInfoS2) FIELD(BatchNum) FIELD(mxTypePara)
// clang-format on
#define TWIN_CUBE_FIELD(field) TILING_DATA_FIELD_DEF(int32_t, field)

BEGIN_TILING_DATA_DEF(TCubeTiling)
TWIN_CUBE_FIELDS(TWIN_CUBE_FIELD)
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(TCubeTilingOp, TCubeTiling)

}  // namespace optiling

namespace matmul_tiling {

inline int64_t MatmulApiTiling::GetTiling(optiling::TCubeTiling& tiling) {
  AscendC::tiling::TCubeTiling plain;
  const int64_t result = GetTiling(plain);
#define TWIN_CUBE_COPY(field) tiling.set_##field(plain.field);
  TWIN_CUBE_FIELDS(TWIN_CUBE_COPY)
#undef TWIN_CUBE_COPY
  return result;
}

}  // namespace matmul_tiling

#undef TWIN_CUBE_FIELD
#undef TWIN_CUBE_FIELDS
