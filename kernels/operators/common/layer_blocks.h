// Blocks of tokens: a core takes every cores-th one. What the cube reads of a block, and the sums that find no place in
// the results, stand in the core's workspace, where blocks take turns.
#pragma once
#include "layer_strips.h"

namespace layer {

struct Block {
  int64_t first = 0;  // token
  uint32_t rows = 0;
  uint32_t slot = 0;  // 0 and 1 by turns
};

template <typename T>
class Blocks {
 public:
  __aicore__ inline void Init(GM_ADDR workspace, const LayerTilingData& tiling) {
    tiling_ = &tiling;
    GM_ADDR own = workspace + static_cast<uint64_t>(AscendC::GetBlockIdx()) * tiling.coreBytes;
    sums_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own), tiling.sumBlocks * tiling.sumElements);
    own += tiling.sumBlocks * tiling.sumElements * sizeof(float);
    operands_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(own), 2 * tiling.operandElements);
    cores_ = AscendC::GetBlockNum() * AscendC::GetSubBlockNum();
    next_ = AscendC::GetBlockIdx();
    taken_ = 0;
  }

  __aicore__ inline bool Next(Block& block) {
    if (next_ >= tiling_->blocks) {
      return false;
    }
    block.first = next_ * tiling_->blockRows;
    const int64_t left = tiling_->tokens - block.first;
    block.rows = left < tiling_->blockRows ? static_cast<uint32_t>(left) : tiling_->blockRows;
    block.slot = taken_++ % 2;
    next_ += cores_;
    return true;
  }

  __aicore__ inline AscendC::GlobalTensor<float> Sums(const Block& block) const {
    return sums_[block.slot % tiling_->sumBlocks * tiling_->sumElements];
  }
  __aicore__ inline AscendC::GlobalTensor<T> Operand(const Block& block) const {
    return operands_[block.slot * tiling_->operandElements];
  }

 private:
  const LayerTilingData* tiling_;
  AscendC::GlobalTensor<float> sums_;
  AscendC::GlobalTensor<T> operands_;
  int64_t cores_;
  int64_t next_;
  uint32_t taken_;
};

// A product of the cube, from its request to its result.
template <typename Product>
__aicore__ inline void FinishProduct(Product& product) {
  product.WaitIterateAll();
  product.End();
}

}  // namespace layer
