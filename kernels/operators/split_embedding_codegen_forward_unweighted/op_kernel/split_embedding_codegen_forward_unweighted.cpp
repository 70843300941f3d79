// Looks up rows of several tables: NONE gives the rows as they are, SUM and MEAN pool the rows of each bag.
// Bags are feature-major: bag t * B + b is sample b of feature t, and fills columns [D_offsets[t], D_offsets[t + 1]).
#include "kernel_operator.h"

#include "result_rows.h"
#include "row_groups.h"

template <typename T>
class EmbeddingForwardKernel {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR weights, GM_ADDR weightsOffsets, GM_ADDR dOffsets,
                              GM_ADDR indices, GM_ADDR offsets, GM_ADDR indiceWeights, GM_ADDR out, GM_ADDR faults,
                              const SplitEmbeddingCodegenForwardUnweightedTilingData& tiling) {
    tiling_ = tiling;
    pitch_ = tiling.tileColumns;
    reporter_.Init(faults, fault::EMBEDDING_FORWARD);
    loader_.Init(pipe, weights, indices, tiling, reporter_);
    offsets_.Init(offsets, tiling.bags + 1, tiling.offsetBytes);
    table_.Init(weightsOffsets, dOffsets, tiling.features, tiling.weightElements);
    if (tiling.weighted != 0) {
      factors_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(indiceWeights),
                               static_cast<uint64_t>(tiling.indexCount));
    }
    const bool pooled = tiling.pooling != embedding::POOL_NONE;
    const int64_t rows = pooled ? tiling.batch : tiling.indexCount;
    result_.Init(pipe, out, rows * tiling.outColumns, tiling.outType, pitch_, pooled ? 1 : tiling.groupRows);
    pipe->InitBuffer(wide_, tiling.groupRows * pitch_ * sizeof(float));
    pipe->InitBuffer(sum_, pitch_ * sizeof(float));
    pipe->InitBuffer(product_, pitch_ * sizeof(float));
  }

  __aicore__ inline void Process() {
    if (AscendC::GetBlockIdx() == 0 && !reporter_.Silent()) {
      LookAtOffsets();
    }
    if (tiling_.pooling == embedding::POOL_NONE) {
      GatherRows();
    } else {
      PoolBags();
    }
  }

 private:
  // The outer offsets, and where the features begin. Those between are looked at where their bags are pooled; without
  // pooling nothing depends on them.
  __aicore__ inline void LookAtOffsets() {
    int64_t before = offsets_.At(0);
    if (before != 0) {
      reporter_.Tell(fault::FIRST, fault::OFFSETS, 0, before, 0);
    }
    for (int64_t t = 0; t < tiling_.features; ++t) {
      const int64_t bag = (t + 1) * tiling_.batch;
      const int64_t next = offsets_.At(bag);
      if (next < before) {
        reporter_.Tell(fault::DECREASES, fault::OFFSETS, bag, next, before);
      }
      before = next;
    }
    if (before != tiling_.indexCount) {
      reporter_.Tell(fault::NOT_THE_END, fault::OFFSETS, tiling_.bags, before, tiling_.indexCount);
    }
  }

  // An entry of offsets, inside the indices whatever it holds.
  __aicore__ inline int64_t Offset(int64_t bag) const {
    const int64_t value = offsets_.At(bag);
    return value < 0 ? 0 : embedding::Smaller(value, tiling_.indexCount);
  }

  // Equal shares of the indices; every one belongs to the feature whose bags hold it.
  __aicore__ inline void GatherRows() {
    const int64_t cores = AscendC::GetBlockNum();
    const int64_t core = AscendC::GetBlockIdx();
    int64_t at = tiling_.indexCount * core / cores;
    const int64_t end = tiling_.indexCount * (core + 1) / cores;
    for (int64_t t = 0; t < tiling_.features && at < end; ++t) {
      const bool last = t + 1 == tiling_.features;
      const int64_t stop = last ? end : embedding::Smaller(end, Offset((t + 1) * tiling_.batch));
      if (stop <= at) {
        continue;
      }
      table_.Select(t);
      // Feature widths are equal here; a description that says otherwise must not leave the result.
      const int64_t width = embedding::Smaller(table_.Width(), tiling_.outColumns);
      for (int64_t column = 0; column < width; column += pitch_) {
        GatherColumns(at, stop, column, embedding::Smaller(width - column, pitch_));
      }
      at = stop;
    }
  }

  __aicore__ inline void GatherColumns(int64_t at, int64_t stop, int64_t column, int64_t columns) {
    RowGroup next = loader_.Load(table_, at, stop, column, columns);
    while (next.count > 0) {
      const RowGroup group = next;
      const int64_t after = group.first + group.count;
      next.count = 0;
      if (after < stop) {
        next = loader_.Load(table_, after, stop, column, columns);
      }
      AscendC::LocalTensor<T> rows = loader_.Take();
      const AscendC::LocalTensor<float> wide = Widened(rows, group.count);
      result_.Store<T>(rows, wide, group.count, columns, group.valid, group.first * tiling_.outColumns + column,
                       tiling_.outColumns);
      loader_.Release(rows);
    }
  }

  // The fp32 image of loaded rows: themselves, if they are fp32.
  __aicore__ inline AscendC::LocalTensor<float> Widened(const AscendC::LocalTensor<T>& rows, int64_t count) {
    if constexpr (std::is_same<T, float>::value) {
      return rows;
    } else {
      AscendC::LocalTensor<float> wide = wide_.Get<float>();
      AscendC::Cast(wide, rows, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count) * pitch_);
      AscendC::PipeBarrier<PIPE_V>();
      return wide;
    }
  }

  __aicore__ inline void PoolBags() {
    int64_t bag = 0;
    int64_t end = tiling_.bags;
    TakeShare(bag, end);
    while (bag < end) {
      const int64_t t = bag / tiling_.batch;
      const int64_t stop = embedding::Smaller(end, (t + 1) * tiling_.batch);
      table_.Select(t);
      const int64_t width = embedding::Smaller(table_.Width(), tiling_.outColumns - table_.Column());
      for (int64_t column = 0; column < width; column += pitch_) {
        PoolColumns(bag, stop, column, embedding::Smaller(width - column, pitch_));
      }
      bag = stop;
    }
  }

  // Bags [begin, end) of this core, with about the same number of indices and bags for each. All cores halve the
  // same intervals, so their shares neither overlap nor leave a gap, even if offsets are out of order.
  __aicore__ inline void TakeShare(int64_t& begin, int64_t& end) const {
    const int64_t cores = AscendC::GetBlockNum();
    const int64_t total = tiling_.indexCount + tiling_.bags;
    int64_t low = 0;
    int64_t high = cores;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      const int64_t target = total / cores * middle + total % cores * middle / cores;
      int64_t first = begin;
      int64_t last = end;
      while (first < last) {
        const int64_t probe = first + (last - first) / 2;
        if (Offset(probe) + probe < target) {
          first = probe + 1;
        } else {
          last = probe;
        }
      }
      if (AscendC::GetBlockIdx() < middle) {
        high = middle;
        end = first;
      } else {
        low = middle;
        begin = first;
      }
    }
  }

  __aicore__ inline void PoolColumns(int64_t bag, int64_t stop, int64_t column, int64_t columns) {
    const int64_t first = Offset(bag);
    const int64_t end = embedding::Larger(first, Offset(stop));
    columns_ = columns;
    column_ = column;
    OpenBag(bag, first, end);
    RowGroup next;
    next.count = 0;
    if (first < end) {
      next = loader_.Load(table_, first, end, column, columns);
    }
    while (next.count > 0) {
      const RowGroup group = next;
      const int64_t after = group.first + group.count;
      next.count = 0;
      if (after < end) {
        next = loader_.Load(table_, after, end, column, columns);
      }
      AscendC::LocalTensor<T> rows = loader_.Take();
      const AscendC::LocalTensor<float> wide = Widened(rows, group.count);
      for (int64_t j = 0; j < group.count; ++j) {
        while (group.first + j >= bagEnd_ && bag_ + 1 < stop) {
          CloseBag();
          OpenBag(bag_ + 1, bagEnd_, end);
        }
        if ((group.valid >> j & 1ULL) != 0) {
          AddRow(wide[static_cast<uint32_t>(j) * pitch_], group.first + j);
        }
      }
      loader_.Release(rows);
    }
    while (bag_ + 1 < stop) {
      CloseBag();
      OpenBag(bag_ + 1, bagEnd_, end);
    }
    CloseBag();
  }

  // Its rows are [start, bagEnd_), inside [start, end) and after those of the bags before it.
  __aicore__ inline void OpenBag(int64_t bag, int64_t start, int64_t end) {
    bag_ = bag;
    bagStart_ = start;
    bagEnd_ = embedding::Smaller(end, embedding::Larger(start, Offset(bag + 1)));
    if (!reporter_.Silent() && offsets_.At(bag + 1) < offsets_.At(bag)) {
      reporter_.Tell(fault::DECREASES, fault::OFFSETS, bag + 1, offsets_.At(bag + 1), offsets_.At(bag));
    }
    AscendC::Duplicate<float>(sum_.Get<float>(), 0.0f, static_cast<int32_t>(pitch_));
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void AddRow(const AscendC::LocalTensor<float>& row, int64_t index) {
    const AscendC::LocalTensor<float> sum = sum_.Get<float>();
    const int32_t count = static_cast<int32_t>(columns_);
    if (tiling_.weighted != 0) {
      const AscendC::LocalTensor<float> product = product_.Get<float>();
      AscendC::Muls<float>(product, row, factors_.GetValue(static_cast<uint64_t>(index)), count);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Add(sum, sum, product, count);
    } else {
      AscendC::Add(sum, sum, row, count);
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void CloseBag() {
    const AscendC::LocalTensor<float> sum = sum_.Get<float>();
    if (tiling_.pooling == embedding::POOL_MEAN && bagEnd_ > bagStart_) {
      AscendC::Muls<float>(sum, sum, 1.0f / static_cast<float>(bagEnd_ - bagStart_), static_cast<int32_t>(columns_));
      AscendC::PipeBarrier<PIPE_V>();
    }
    const int64_t sample = bag_ - table_.Feature() * tiling_.batch;
    result_.Store<float>(sum, sum, 1, columns_, 1, sample * tiling_.outColumns + table_.Column() + column_, columns_);
  }

  SplitEmbeddingCodegenForwardUnweightedTilingData tiling_;
  fault::Reporter reporter_;
  RowLoader<T> loader_;
  ResultRows result_;
  embedding::Integers offsets_;
  embedding::FeatureTable table_;
  AscendC::GlobalTensor<float> factors_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> wide_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sum_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> product_;
  uint32_t pitch_;
  int64_t columns_;
  int64_t column_;
  int64_t bag_;
  int64_t bagStart_;
  int64_t bagEnd_;
};

extern "C" __global__ __aicore__ void split_embedding_codegen_forward_unweighted(
    GM_ADDR dev_weights, GM_ADDR uvm_weights, GM_ADDR lxu_cache_weights, GM_ADDR weights_placements,
    GM_ADDR weights_offsets, GM_ADDR d_offsets, GM_ADDR indices, GM_ADDR offsets, GM_ADDR lxu_cache_locations,
    GM_ADDR hash_indices, GM_ADDR unique_inverse, GM_ADDR indice_weights, GM_ADDR faults, GM_ADDR out,
    GM_ADDR faults_out, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(SplitEmbeddingCodegenForwardUnweightedTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(tilingData, tiling);
  if (TILING_KEY_IS(1)) {
    AscendC::TPipe pipe;
    EmbeddingForwardKernel<DTYPE_DEV_WEIGHTS> kernel;
    kernel.Init(&pipe, dev_weights, weights_offsets, d_offsets, indices, offsets, indice_weights, out, faults_out,
                tilingData);
    kernel.Process();
  }
}
