// grad_values[r] = the sum of grad over all copies of row r, in ascending position of permute; zero without a copy.
// Each core writes one contiguous share of the result. A row with one copy is moved, with several it is added up in
// float and rounded once.
#include <type_traits>

#include "kernel_operator.h"

#include "data_faults.h"
#include "feature_blocks.h"
#include "jagged_writer.h"
#include "permute2d_sparse_data_grad_tiling.h"

template <typename T>
class PermuteGradKernel {
 public:
  static constexpr bool WIDENED = !std::is_same<T, float>::value;
  using Bits = typename std::conditional<sizeof(T) == 4, uint32_t, uint16_t>::type;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR grad, GM_ADDR sorted, GM_ADDR order, GM_ADDR inOffsets,
                              GM_ADDR outOffsets, GM_ADDR faults, GM_ADDR gradValues,
                              const Permute2dSparseDataGradTilingData& tiling) {
    tiling_ = tiling;
    reporter_.Init(faults, fault::PERMUTE_GRADIENT);
    grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(grad), static_cast<uint64_t>(tiling.gradRows * tiling.innerSize));
    values_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradValues),
                            static_cast<uint64_t>(tiling.rows * tiling.innerSize));
    sorted_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(sorted), static_cast<uint64_t>(tiling.copies));
    order_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(order), static_cast<uint64_t>(tiling.copies));
    in_.Init(inOffsets, tiling.features, tiling.rows);
    out_.Init(outOffsets, tiling.copies, tiling.gradRows);
    AscendC::GlobalTensor<Bits> source;
    AscendC::GlobalTensor<Bits> target;
    source.SetGlobalBuffer(reinterpret_cast<__gm__ Bits*>(grad),
                           static_cast<uint64_t>(tiling.gradRows * tiling.innerSize));
    target.SetGlobalBuffer(reinterpret_cast<__gm__ Bits*>(gradValues),
                           static_cast<uint64_t>(tiling.rows * tiling.innerSize));
    writer_.Init(pipe, source, target, tiling.tileBytes, tiling.fillBytes, 0);
    pipe->InitBuffer(loaded_, 2, tiling.sumElements * sizeof(T));
    pipe->InitBuffer(summed_, 2, tiling.sumElements * sizeof(T));
    if constexpr (WIDENED) {
      pipe->InitBuffer(sum_, tiling.sumElements * sizeof(float));
      pipe->InitBuffer(wide_, tiling.sumElements * sizeof(float));
    }
  }

  __aicore__ inline void Process() {
    if (AscendC::GetBlockIdx() == 0 && !reporter_.Silent()) {
      LookAtData();
    }
    int64_t row = AscendC::GetBlockIdx() * tiling_.rowsPerCore;
    const int64_t end = permute::Smaller(row + tiling_.rowsPerCore, tiling_.rows);
    if (row >= end) {
      return;
    }
    int64_t feature = in_.Find(row);
    int64_t first = FirstEntry(feature);
    for (; feature < tiling_.features && row < end; ++feature) {
      const int64_t stop = permute::Smaller(in_.At(feature + 1), end);
      int64_t last = first;
      while (last < tiling_.copies && SortedAt(last) == feature) {
        ++last;
      }
      if (stop > row) {
        WriteBlock(feature, first, last, row, stop);
        row = stop;
      }
      first = last;
    }
    if (row < end) {
      writer_.Fill(row * tiling_.innerSize, (end - row) * tiling_.innerSize);
    }
    writer_.Flush();
  }

 private:
  // The ends of what is sorted, and of the offsets, tell of all entries between. A bad entry makes sums wrong too.
  __aicore__ inline void LookAtData() {
    if (tiling_.copies > 0) {
      LookAtEntry(0);
      LookAtEntry(tiling_.copies - 1);
    }
    const int64_t permuted = out_.Given(tiling_.copies);
    if (permuted != tiling_.gradRows) {
      reporter_.Tell(fault::NOT_THE_END, fault::GRAD, 0, tiling_.gradRows, permuted);
    }
    const int64_t rows = in_.Given(tiling_.features);
    if (rows != tiling_.rows) {
      reporter_.Tell(fault::NOT_THE_END, fault::VALUES, 0, tiling_.rows, rows);
    }
  }
  __aicore__ inline void LookAtEntry(int64_t at) {
    const int64_t feature = SortedAt(at);
    if (feature < 0 || feature >= tiling_.features) {
      reporter_.Tell(fault::OUT_OF_RANGE, fault::PERMUTE_ENTRIES, order_.GetValue(static_cast<uint64_t>(at)), feature,
                     tiling_.features);
    }
  }

  __aicore__ inline int64_t SortedAt(int64_t at) const { return sorted_.GetValue(static_cast<uint64_t>(at)); }

  // The first entry of the sorted permutation that is not below `feature`.
  __aicore__ inline int64_t FirstEntry(int64_t feature) const {
    int64_t low = 0;
    int64_t high = tiling_.copies;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (SortedAt(middle) < feature) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Rows of grad that belong to rows [row, stop) of a feature, in the copy behind entry `at`.
  struct Span {
    int64_t start;
    int64_t rows;
  };
  __aicore__ inline Span CopyOf(int64_t feature, int64_t at, int64_t row, int64_t stop) const {
    Span span = {0, 0};
    const int64_t copy = order_.GetValue(static_cast<uint64_t>(at));
    if (copy >= 0 && copy < tiling_.copies) {
      span.start = out_.At(copy) + permute::Larger(row - in_.At(feature), 0);
      span.rows = permute::Larger(permute::Smaller(out_.At(copy + 1) - span.start, stop - row), 0);
    }
    return span;
  }

  __aicore__ inline void WriteBlock(int64_t feature, int64_t first, int64_t last, int64_t row, int64_t stop) {
    const int64_t size = tiling_.innerSize;
    if (last - first > 1) {
      writer_.Flush();
      for (int64_t at = 0; at < (stop - row) * size; at += tiling_.sumElements) {
        AddCopies(feature, first, last, row, stop, at);
      }
      return;
    }
    Span span = {0, 0};
    if (last > first) {
      span = CopyOf(feature, first, row, stop);
    }
    if (span.rows > 0) {
      writer_.Copy(row * size, span.start * size, span.rows * size);
    }
    if (row + span.rows < stop) {
      writer_.Fill((row + span.rows) * size, (stop - row - span.rows) * size);
    }
  }

  // Elements [at, at + sumElements) of rows [row, stop).
  __aicore__ inline void AddCopies(int64_t feature, int64_t first, int64_t last, int64_t row, int64_t stop,
                                   int64_t at) {
    const int64_t left = (stop - row) * tiling_.innerSize - at;
    const uint32_t count = static_cast<uint32_t>(permute::Smaller(left, tiling_.sumElements));
    AscendC::LocalTensor<T> result = summed_.template AllocTensor<T>();
    AscendC::LocalTensor<float> sum;
    if constexpr (WIDENED) {
      sum = sum_.template Get<float>();
    } else {
      sum = result;
    }
    AscendC::Duplicate<float>(sum, 0.0f, static_cast<int32_t>(count));
    AscendC::PipeBarrier<PIPE_V>();
    for (int64_t entry = first; entry < last; ++entry) {
      const Span span = CopyOf(feature, entry, row, stop);
      const int64_t available = span.rows * tiling_.innerSize - at;
      if (available > 0) {
        Add(sum, span.start * tiling_.innerSize + at, static_cast<uint32_t>(permute::Smaller(available, count)));
      }
    }
    if constexpr (WIDENED) {
      AscendC::Cast(result, sum, AscendC::RoundMode::CAST_RINT, count);
    }
    summed_.EnQue(result);
    result = summed_.template DeQue<T>();
    AscendC::DataCopyPad(values_[static_cast<uint64_t>(row * tiling_.innerSize + at)], result, Burst(count));
    summed_.FreeTensor(result);
  }

  __aicore__ inline void Add(const AscendC::LocalTensor<float>& sum, int64_t from, uint32_t count) {
    AscendC::LocalTensor<T> copy = loaded_.template AllocTensor<T>();
    AscendC::DataCopyPad(copy, grad_[static_cast<uint64_t>(from)], Burst(count),
                         AscendC::DataCopyPadExtParams<T>(false, 0, 0, T()));
    loaded_.EnQue(copy);
    copy = loaded_.template DeQue<T>();
    if constexpr (WIDENED) {
      AscendC::LocalTensor<float> wide = wide_.template Get<float>();
      AscendC::Cast(wide, copy, AscendC::RoundMode::CAST_NONE, count);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Add(sum, sum, wide, static_cast<int32_t>(count));
    } else {
      AscendC::Add(sum, sum, copy, static_cast<int32_t>(count));
    }
    AscendC::PipeBarrier<PIPE_V>();
    loaded_.FreeTensor(copy);
  }

  static __aicore__ inline AscendC::DataCopyExtParams Burst(uint32_t count) {
    return AscendC::DataCopyExtParams(1, count * static_cast<uint32_t>(sizeof(T)), 0, 0, 0);
  }

  Permute2dSparseDataGradTilingData tiling_;
  fault::Reporter reporter_;
  AscendC::GlobalTensor<T> grad_;
  AscendC::GlobalTensor<T> values_;
  AscendC::GlobalTensor<int64_t> sorted_;
  AscendC::GlobalTensor<int64_t> order_;
  permute::BlockStarts in_;
  permute::BlockStarts out_;
  jagged::RunWriter<Bits> writer_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> loaded_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> summed_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sum_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> wide_;
};

extern "C" __global__ __aicore__ void permute2d_sparse_data_grad(GM_ADDR grad, GM_ADDR sorted_permute, GM_ADDR order,
                                                                 GM_ADDR in_offsets, GM_ADDR out_offsets,
                                                                 GM_ADDR faults, GM_ADDR grad_values,
                                                                 GM_ADDR faults_out, GM_ADDR workspace,
                                                                 GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(Permute2dSparseDataGradTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(tilingData, tiling);
  AscendC::TPipe pipe;
  PermuteGradKernel<DTYPE_GRAD> kernel;
  kernel.Init(&pipe, grad, sorted_permute, order, in_offsets, out_offsets, faults_out, grad_values, tilingData);
  kernel.Process();
}
