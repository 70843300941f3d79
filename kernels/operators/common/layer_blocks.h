// Blocks of tokens: a core takes every cores-th one, and has two of each kind in its workspace. Sums of the cube are S
// there, those of gradients fp32.
#pragma once
#include "layer_strips.h"

namespace layer {

struct Block {
  int64_t first = 0;  // token
  uint32_t rows = 0;
  uint32_t slot = 0;  // 0 and 1 by turns
};

template <typename T, typename S>
class Blocks {
 public:
  __aicore__ inline void Init(GM_ADDR workspace, const LayerTilingData& tiling) {
    tiling_ = &tiling;
    GM_ADDR own = workspace + static_cast<uint64_t>(AscendC::GetBlockIdx()) * tiling.coreBytes;
    gradients_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own), 2 * tiling.gradientElements);
    own += 2 * tiling.gradientElements * sizeof(float);
    sums_.SetGlobalBuffer(reinterpret_cast<__gm__ S*>(own), 2 * tiling.sumElements);
    own += 2 * tiling.sumElements * sizeof(S);
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

  __aicore__ inline AscendC::GlobalTensor<S> Sums(uint32_t slot) const { return sums_[slot * tiling_->sumElements]; }
  __aicore__ inline AscendC::GlobalTensor<float> Gradients(const Block& block) const {
    return gradients_[block.slot * tiling_->gradientElements];
  }
  __aicore__ inline AscendC::GlobalTensor<T> Operand(const Block& block) const {
    return operands_[block.slot * tiling_->operandElements];
  }

 private:
  const LayerTilingData* tiling_;
  AscendC::GlobalTensor<S> sums_;
  AscendC::GlobalTensor<float> gradients_;
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
