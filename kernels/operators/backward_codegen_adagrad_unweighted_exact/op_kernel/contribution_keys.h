// First step: one record per index, in the order of the indices.
#pragma once
#include "contribution.h"

#include "backward_codegen_adagrad_unweighted_exact_tiling.h"

constexpr uint32_t KEY_TILE = 2048;  // indices

class ContributionKeys {
 public:
  // After the rows of all tables: contributes nothing, and stands last when sorted.
  __aicore__ inline int64_t NoRow() const { return noRow_; }

  __aicore__ inline void Init(AscendC::TPipe* pipe, const BackwardArguments& in,
                              const BackwardCodegenAdagradUnweightedExactTilingData& tiling) {
    tiling_ = tiling;
    indices_.Init(in.indices, tiling.indexCount, tiling.indexBytes);
    offsets_.Init(in.offsets, tiling.bags + 1, tiling.offsetBytes);
    keys_.Init(in.hashSizeCumsum, tiling.features + 1, sizeof(int64_t));
    table_.Init(in.weightsOffsets, in.dOffsets, tiling.features, tiling.weightElements);
    noRow_ = embedding::Larger(0, keys_.At(tiling.features));
    if (tiling.weighted != 0) {
      factors_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(in.indiceWeights),
                               static_cast<uint64_t>(tiling.indexCount));
    }
    indexTile_.Init(pipe, KEY_TILE);
  }

  // Records of indices [first, end), made in `tile`. True: it holds all of them, and `target` was not written.
  __aicore__ inline bool Write(const AscendC::GlobalTensor<uint32_t>& target,
                               const AscendC::LocalTensor<uint32_t>& tile, int64_t first, int64_t end) {
    const bool fits = end - first <= SORT_TILE;
    Records records;
    records.Attach(tile);
    bag_ = -1;
    for (int64_t at = first; at < end; at += SORT_TILE) {
      const int64_t count = embedding::Smaller(SORT_TILE, end - at);
      embedding::Fence<AscendC::HardEvent::MTE3_S>();  // the tile before has left
      for (int64_t i = 0; i < count; ++i) {
        SetRecord(records, static_cast<uint32_t>(i), at + i, end);
      }
      if (!fits) {
        embedding::Fence<AscendC::HardEvent::S_MTE3>();
        StoreRecords(target, at, tile, count);
      }
    }
    return fits;
  }

 private:
  __aicore__ inline void SetRecord(const Records& records, uint32_t i, int64_t k, int64_t end) {
    const int64_t row = indexTile_.At(indices_, k, end);
    if (!EnterBag(k) || row < 0 || row >= rows_) {
      records.Set(i, noRow_, 0, 0);
      return;
    }
    const bool single = tiling_.pooling == embedding::POOL_NONE;
    const uint32_t source = static_cast<uint32_t>(single ? k : bag_);
    const uint32_t extra = tiling_.weightsGradient != 0 ? static_cast<uint32_t>(k) : BitsOfFloat(Scale(k));
    records.Set(i, key_ + row, source, extra);
  }

  // Moves to the bag of index k; k only grows. False where k is in no bag.
  __aicore__ inline bool EnterBag(int64_t k) {
    if (bag_ < 0) {
      bag_ = FindBag(k);
      bagEnd_ = bag_ < tiling_.bags ? offsets_.At(bag_ + 1) : 0;
    }
    while (bag_ < tiling_.bags && k >= bagEnd_) {
      ++bag_;
      bagEnd_ = bag_ < tiling_.bags ? offsets_.At(bag_ + 1) : 0;
    }
    if (bag_ >= tiling_.bags || k < offsets_.At(bag_)) {
      return false;
    }
    const int64_t t = bag_ / tiling_.batch;
    if (t != table_.Feature()) {
      table_.Select(t);
      key_ = keys_.At(t);
      rows_ = embedding::Smaller(table_.Rows(), key_ < 0 ? 0 : noRow_ - key_);
      // A table ends where the next one's keys start.
      for (int64_t i = 0; i < tiling_.features; ++i) {
        const int64_t other = keys_.At(i);
        if (other > key_) {
          rows_ = embedding::Smaller(rows_, other - key_);
        }
      }
    }
    return true;
  }

  // The last bag that starts at or before k.
  __aicore__ inline int64_t FindBag(int64_t k) const {
    int64_t low = 0;
    int64_t high = tiling_.bags;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (offsets_.At(middle) <= k) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low > 0 ? low - 1 : 0;
  }

  __aicore__ inline float Scale(int64_t k) const {
    float scale = tiling_.weighted != 0 ? factors_.GetValue(static_cast<uint64_t>(k)) : 1.0f;
    if (tiling_.pooling == embedding::POOL_MEAN) {
      scale = scale * (1.0f / static_cast<float>(bagEnd_ - offsets_.At(bag_)));
    }
    return scale;
  }

  BackwardCodegenAdagradUnweightedExactTilingData tiling_;
  embedding::Integers indices_;
  embedding::Integers offsets_;
  embedding::Integers keys_;
  embedding::FeatureTable table_;
  embedding::IntegerTile indexTile_;
  AscendC::GlobalTensor<float> factors_;
  int64_t noRow_;
  int64_t bag_;
  int64_t bagEnd_;
  int64_t key_;
  int64_t rows_;
};
