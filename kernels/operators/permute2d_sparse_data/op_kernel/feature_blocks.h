// Where a feature's block of rows starts and ends. Any content is safe: what is read is clamped to the rows that exist.
#pragma once
#include "kernel_operator.h"

namespace permute {

class BlockStarts {
 public:
  __aicore__ inline void Init(GM_ADDR offsets, int64_t blocks, int64_t rows) {
    offsets_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(offsets), static_cast<uint64_t>(blocks) + 1);
    blocks_ = blocks;
    rows_ = rows;
  }

  __aicore__ inline int64_t Blocks() const { return blocks_; }

  // An entry as it was given.
  __aicore__ inline int64_t Given(int64_t block) const { return offsets_.GetValue(static_cast<uint64_t>(block)); }

  // The first row of a block, the end of the last one for block == Blocks().
  __aicore__ inline int64_t At(int64_t block) const {
    const int64_t value = Given(block);
    return value < 0 ? 0 : (value > rows_ ? rows_ : value);
  }

  // The last block that starts at or before `row`; empty blocks before it are passed over.
  __aicore__ inline int64_t Find(int64_t row) const {
    int64_t low = 0;
    int64_t high = blocks_ + 1;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (At(middle) <= row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low > 0 ? low - 1 : 0;
  }

 private:
  AscendC::GlobalTensor<int64_t> offsets_;
  int64_t blocks_;
  int64_t rows_;
};

__aicore__ inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
__aicore__ inline int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace permute
