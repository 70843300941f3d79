// Host-side scratch and tiling of RmsNorm.
#pragma once
#include <algorithm>

#include "graph/tensor.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tiling/library_scratch.h"
#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(RmsNormTiling)
TILING_DATA_FIELD_DEF(uint32_t, bLength)
TILING_DATA_FIELD_DEF(uint32_t, sLength)
TILING_DATA_FIELD_DEF(uint32_t, hLength)
TILING_DATA_FIELD_DEF(uint32_t, originalHLength)
TILING_DATA_FIELD_DEF(float, reciprocalOfHLength)
TILING_DATA_FIELD_DEF(uint32_t, mainBshLength)
TILING_DATA_FIELD_DEF(uint32_t, mainBsLength)
TILING_DATA_FIELD_DEF(uint32_t, mainBsLengthAlign)
TILING_DATA_FIELD_DEF(uint32_t, loopRound)
TILING_DATA_FIELD_DEF(uint32_t, inputTailPos)
TILING_DATA_FIELD_DEF(uint32_t, tailBshLength)
TILING_DATA_FIELD_DEF(uint32_t, tailBsLength)
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(RmsNormTilingOp, RmsNormTiling)

}  // namespace optiling

namespace AscendC {

// A shape is [B, S, H]. False for any other, and for one that is no basic block where it is to be.
inline bool GetRmsNormMaxMinTmpSize(const ge::Shape& srcShape, const uint32_t typeSize, uint32_t& maxValue,
                                    uint32_t& minValue, const bool isBasicBlock = false) {
  maxValue = minValue = 0;
  if (srcShape.GetDimNum() != 3 || srcShape.GetShapeSize() <= 0 || typeSize == 0) {
    return false;
  }
  const auto rows = static_cast<uint32_t>(srcShape.GetDim(0) * srcShape.GetDim(1));
  const auto columns = static_cast<uint32_t>(srcShape.GetDim(2));
  if (isBasicBlock && !twin::IsRmsNormBasicBlock(rows, columns)) {
    return false;
  }
  minValue = static_cast<uint32_t>(twin::RmsNormRowBytes(columns));
  maxValue = minValue * rows;
  return true;
}

// originSrcShape has the H that counts. False also of less work space than the least.
inline bool GetRmsNormTilingInfo(const ge::Shape& srcShape, const ge::Shape& originSrcShape,
                                 const uint32_t stackBufferByteSize, const uint32_t typeSize,
                                 AscendC::tiling::RmsNormTiling& tiling, const bool isBasicBlock = false) {
  tiling = AscendC::tiling::RmsNormTiling{};
  uint32_t most = 0, least = 0;
  if (!GetRmsNormMaxMinTmpSize(srcShape, typeSize, most, least, isBasicBlock) || originSrcShape.GetDimNum() != 3) {
    return false;
  }
  tiling.bLength = static_cast<uint32_t>(srcShape.GetDim(0));
  tiling.sLength = static_cast<uint32_t>(srcShape.GetDim(1));
  tiling.hLength = static_cast<uint32_t>(srcShape.GetDim(2));
  tiling.originalHLength = static_cast<uint32_t>(originSrcShape.GetDim(2));
  if (tiling.originalHLength == 0) {
    return false;
  }
  tiling.reciprocalOfHLength = 1.0f / static_cast<float>(tiling.originalHLength);
  const uint32_t rows = tiling.bLength * tiling.sLength;
  const uint32_t block = std::max<uint32_t>(1, 32 / typeSize);
  tiling.mainBsLength = std::min(rows, stackBufferByteSize / least);
  tiling.mainBshLength = tiling.mainBsLength * tiling.hLength;
  tiling.mainBsLengthAlign = (tiling.mainBsLength + block - 1) / block * block;
  if (tiling.mainBsLength == 0) {
    return false;
  }
  tiling.loopRound = rows / tiling.mainBsLength;
  tiling.tailBsLength = rows % tiling.mainBsLength;
  tiling.tailBshLength = tiling.tailBsLength * tiling.hLength;
  tiling.inputTailPos = (rows - tiling.tailBsLength) * tiling.hLength;
  return true;
}
inline bool GetRmsNormTilingInfo(const ge::Shape& srcShape, const ge::Shape& originSrcShape,
                                 const uint32_t stackBufferByteSize, const uint32_t typeSize,
                                 ::optiling::RmsNormTiling& tiling, const bool isBasicBlock = false) {
  AscendC::tiling::RmsNormTiling plain;
  const bool made = GetRmsNormTilingInfo(srcShape, originSrcShape, stackBufferByteSize, typeSize, plain, isBasicBlock);
  tiling.set_bLength(plain.bLength);
  tiling.set_sLength(plain.sLength);
  tiling.set_hLength(plain.hLength);
  tiling.set_originalHLength(plain.originalHLength);
  tiling.set_reciprocalOfHLength(plain.reciprocalOfHLength);
  tiling.set_mainBshLength(plain.mainBshLength);
  tiling.set_mainBsLength(plain.mainBsLength);
  tiling.set_mainBsLengthAlign(plain.mainBsLengthAlign);
  tiling.set_loopRound(plain.loopRound);
  tiling.set_inputTailPos(plain.inputTailPos);
  tiling.set_tailBshLength(plain.tailBshLength);
  tiling.set_tailBsLength(plain.tailBsLength);
  return made;
}

}  // namespace AscendC
