// Groups of table rows on their way into the unified buffer: one group is loaded while the one before is used.
#pragma once
#include "data_faults.h"
#include "embedding_tables.h"

#include "split_embedding_codegen_forward_unweighted_tiling.h"

constexpr uint32_t MAX_GROUP_ROWS = 32;
constexpr uint32_t ROW_BUFFERS = 2;

// Indices [first, first + count) of one feature; bit j of `valid`: index j is a row of the table.
struct RowGroup {
  int64_t first;
  int64_t count;
  uint64_t valid;
};

template <typename T>
class RowLoader {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR weights, GM_ADDR indices,
                              const SplitEmbeddingCodegenForwardUnweightedTilingData& tiling,
                              fault::Reporter& reporter) {
    reporter_ = &reporter;
    pitch_ = tiling.tileColumns;
    groupRows_ = tiling.groupRows;
    indexCount_ = tiling.indexCount;
    weights_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weights), static_cast<uint64_t>(tiling.weightElements));
    indices_.Init(indices, tiling.indexCount, tiling.indexBytes);
    tile_.Init(pipe, tiling.integerTile);
    pipe->InitBuffer(queue_, ROW_BUFFERS, groupRows_ * pitch_ * static_cast<uint32_t>(sizeof(T)));
  }

  // Starts the loads of columns [column, column + columns) of the rows from index `first`, before index `end`.
  __aicore__ inline RowGroup Load(const embedding::FeatureTable& table, int64_t first, int64_t end, int64_t column,
                                  int64_t columns) {
    RowGroup group;
    group.first = first;
    group.count = embedding::Smaller(end - first, groupRows_);
    group.valid = 0;
    AscendC::LocalTensor<T> rows = queue_.template AllocTensor<T>();
    const AscendC::DataCopyExtParams burst(1, static_cast<uint32_t>(columns * static_cast<int64_t>(sizeof(T))), 0, 0,
                                           0);
    for (int64_t j = 0; j < group.count; ++j) {
      const int64_t row = tile_.At(indices_, first + j, indexCount_);
      if (row < 0 || row >= table.Rows()) {
        reporter_->Tell(fault::OUT_OF_RANGE, fault::INDICES, first + j, row, table.Rows());
        continue;
      }
      group.valid |= 1ULL << j;
      const int64_t at = table.Base() + row * table.Width() + column;
      AscendC::DataCopyPad(rows[static_cast<uint32_t>(j) * pitch_], weights_[static_cast<uint64_t>(at)], burst,
                           AscendC::DataCopyPadExtParams<T>(false, 0, 0, T()));
    }
    queue_.EnQue(rows);
    return group;
  }

  __aicore__ inline AscendC::LocalTensor<T> Take() { return queue_.template DeQue<T>(); }
  __aicore__ inline void Release(AscendC::LocalTensor<T>& rows) { queue_.FreeTensor(rows); }

 private:
  AscendC::TQue<AscendC::TPosition::VECIN, ROW_BUFFERS> queue_;
  AscendC::GlobalTensor<T> weights_;
  fault::Reporter* reporter_;
  embedding::Integers indices_;
  embedding::IntegerTile tile_;
  uint32_t pitch_;
  uint32_t groupRows_;
  int64_t indexCount_;
};
