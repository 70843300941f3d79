// permuted[p] = block permute[p] of values, and likewise of weights and lengths. Bytes are moved, whatever they mean.
// Each core writes one contiguous share of each output.
#include "kernel_operator.h"

#include "data_faults.h"
#include "feature_blocks.h"
#include "jagged_writer.h"
#include "length_bits.h"
#include "permute2d_sparse_data_tiling.h"

constexpr uint32_t LENGTHS_TILE = 1024;  // short rows of lengths are collected here
constexpr int64_t RUN_BYTES = 64;        // rows of lengths from here on are moved by themselves

struct PermuteArguments {
  GM_ADDR permute;
  GM_ADDR lengths;
  GM_ADDR values;
  GM_ADDR weights;
  GM_ADDR inOffsets;
  GM_ADDR outOffsets;
  GM_ADDR permutedLengths;
  GM_ADDR permutedValues;
  GM_ADDR permutedWeights;
  GM_ADDR faults;  // null where nobody asks
};

template <typename Index, typename Length>
class PermuteKernel {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const PermuteArguments& arguments,
                              const Permute2dSparseDataTilingData& tiling) {
    arguments_ = arguments;
    tiling_ = tiling;
    permute_.SetGlobalBuffer(reinterpret_cast<__gm__ Index*>(arguments.permute), static_cast<uint64_t>(tiling.copies));
    in_.Init(arguments.inOffsets, tiling.features, tiling.rows);
    out_.Init(arguments.outOffsets, tiling.copies, tiling.outRows);
    reporter_.Init(arguments.faults, fault::PERMUTE);
    if (!reporter_.Silent()) {
      bits_.Init(pipe, arguments.lengths, tiling.features * tiling.batch);
    }
    pipe->InitBuffer(tile_, LENGTHS_TILE * sizeof(Length));
    writer_.Init(pipe, Bytes(arguments.values, tiling.rows * tiling.valueRowBytes),
                 Bytes(arguments.permutedValues, tiling.outRows * tiling.valueRowBytes), tiling.tileBytes,
                 tiling.fillBytes, 0);
  }

  __aicore__ inline void Process() {
    if (!reporter_.Silent()) {
      LookAtLengths();
    }
    MoveRows(tiling_.valueRowBytes);
    if (tiling_.weightRowBytes > 0) {
      writer_.Aim(Bytes(arguments_.weights, tiling_.rows * tiling_.weightRowBytes),
                  Bytes(arguments_.permutedWeights, tiling_.outRows * tiling_.weightRowBytes));
      MoveRows(tiling_.weightRowBytes);
    }
    MoveLengths();
    writer_.Flush();
    if (AscendC::GetBlockIdx() + 1 == AscendC::GetBlockNum()) {
      LookAtSums();
    }
  }

 private:
  static __aicore__ inline AscendC::GlobalTensor<uint8_t> Bytes(GM_ADDR start, int64_t count) {
    AscendC::GlobalTensor<uint8_t> bytes;
    bytes.SetGlobalBuffer(start, static_cast<uint64_t>(count));
    return bytes;
  }

  __aicore__ inline void LookAtLengths() {
    const int64_t first = AscendC::GetBlockIdx() * tiling_.lengthsPerCore;
    const int64_t count = tiling_.features * tiling_.batch;
    bits_.Look(first, permute::Smaller(first + tiling_.lengthsPerCore, count), tiling_.lengthColumns, reporter_);
  }

  // The last core's, and last: the host takes the first core's word, and a bad length or entry makes these wrong too.
  __aicore__ inline void LookAtSums() {
    const int64_t rows = in_.Given(tiling_.features);
    const int64_t copied = out_.Given(tiling_.copies);
    if (rows != tiling_.rows) {
      reporter_.Tell(fault::NOT_THE_END, fault::VALUES, 0, tiling_.rows, rows);
    } else if (copied != tiling_.outRows) {
      reporter_.Tell(fault::NOT_THE_END, fault::PERMUTED_SUM, 0, tiling_.outRows, copied);
    }
  }

  // -1 for an entry that names no feature.
  __aicore__ inline int64_t FeatureOf(int64_t copy) {
    const int64_t feature = static_cast<int64_t>(permute_.GetValue(static_cast<uint64_t>(copy)));
    if (feature >= 0 && feature < tiling_.features) {
      return feature;
    }
    reporter_.Tell(fault::OUT_OF_RANGE, fault::PERMUTE_ENTRIES, copy, feature, tiling_.features);
    return -1;
  }

  __aicore__ inline void MoveRows(int64_t rowBytes) {
    int64_t row = AscendC::GetBlockIdx() * tiling_.rowsPerCore;
    const int64_t end = permute::Smaller(row + tiling_.rowsPerCore, tiling_.outRows);
    if (row >= end || rowBytes == 0) {
      return;
    }
    for (int64_t copy = out_.Find(row); copy < tiling_.copies && row < end; ++copy) {
      const int64_t stop = permute::Smaller(out_.At(copy + 1), end);
      if (stop > row) {
        MoveBlock(copy, row, stop, rowBytes);
        row = stop;
      }
    }
    if (row < end) {  // out_len is more than the lengths add up to
      writer_.Fill(row * rowBytes, (end - row) * rowBytes);
    }
  }

  // Rows [row, stop) of a copy; what its feature does not have is zero.
  __aicore__ inline void MoveBlock(int64_t copy, int64_t row, int64_t stop, int64_t rowBytes) {
    int64_t found = 0;
    const int64_t feature = FeatureOf(copy);
    if (feature >= 0) {
      const int64_t from = in_.At(feature) + permute::Larger(row - out_.At(copy), 0);
      found = permute::Larger(permute::Smaller(in_.At(feature + 1) - from, stop - row), 0);
      if (found > 0) {
        writer_.Copy(row * rowBytes, from * rowBytes, found * rowBytes);
      }
    }
    if (row + found < stop) {
      writer_.Fill((row + found) * rowBytes, (stop - row - found) * rowBytes);
    }
  }

  __aicore__ inline void MoveLengths() {
    const int64_t first = AscendC::GetBlockIdx() * tiling_.copiesPerCore;
    const int64_t end = permute::Smaller(first + tiling_.copiesPerCore, tiling_.copies);
    const int64_t bytes = tiling_.batch * static_cast<int64_t>(sizeof(Length));
    if (first >= end || bytes == 0) {
      return;
    }
    if (bytes < RUN_BYTES) {
      CollectLengths(first, end);
      return;
    }
    writer_.Aim(Bytes(arguments_.lengths, tiling_.features * bytes),
                Bytes(arguments_.permutedLengths, tiling_.copies * bytes));
    for (int64_t copy = first; copy < end; ++copy) {
      const int64_t feature = FeatureOf(copy);
      if (feature >= 0) {
        writer_.Copy(copy * bytes, feature * bytes, bytes);
      } else {
        writer_.Fill(copy * bytes, bytes);
      }
    }
  }

  // Rows too short for a transfer each: put together by the scalar unit, stored tile by tile.
  __aicore__ inline void CollectLengths(int64_t first, int64_t end) {
    AscendC::GlobalTensor<Length> source;
    AscendC::GlobalTensor<Length> target;
    source.SetGlobalBuffer(reinterpret_cast<__gm__ Length*>(arguments_.lengths),
                           static_cast<uint64_t>(tiling_.features * tiling_.batch));
    target.SetGlobalBuffer(reinterpret_cast<__gm__ Length*>(arguments_.permutedLengths),
                           static_cast<uint64_t>(tiling_.copies * tiling_.batch));
    const AscendC::LocalTensor<Length> tile = tile_.template Get<Length>();
    const int64_t copiesPerTile = LENGTHS_TILE / tiling_.batch;
    for (int64_t start = first; start < end; start += copiesPerTile) {
      const int64_t stop = permute::Smaller(start + copiesPerTile, end);
      uint32_t count = 0;
      for (int64_t copy = start; copy < stop; ++copy) {
        const int64_t feature = FeatureOf(copy);
        for (int64_t b = 0; b < tiling_.batch; ++b) {
          const uint64_t at = static_cast<uint64_t>(feature * tiling_.batch + b);
          tile.SetValue(count++, feature >= 0 ? source.GetValue(at) : Length(0));
        }
      }
      Fence<AscendC::HardEvent::S_MTE3>();
      AscendC::DataCopyPad(target[static_cast<uint64_t>(start * tiling_.batch)], tile,
                           AscendC::DataCopyExtParams(1, count * static_cast<uint32_t>(sizeof(Length)), 0, 0, 0));
      Fence<AscendC::HardEvent::MTE3_S>();
    }
  }

  template <AscendC::HardEvent event>
  static __aicore__ inline void Fence() {
    const int32_t id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
    AscendC::SetFlag<event>(id);
    AscendC::WaitFlag<event>(id);
  }

  PermuteArguments arguments_;
  Permute2dSparseDataTilingData tiling_;
  AscendC::GlobalTensor<Index> permute_;
  fault::Reporter reporter_;
  permute::LengthBits<Length> bits_;
  permute::BlockStarts in_;
  permute::BlockStarts out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> tile_;
  jagged::RunWriter<uint8_t> writer_;
};

extern "C" __global__ __aicore__ void permute2d_sparse_data(GM_ADDR permute, GM_ADDR lengths, GM_ADDR values,
                                                            GM_ADDR weights, GM_ADDR in_offsets, GM_ADDR out_offsets,
                                                            GM_ADDR faults, GM_ADDR permuted_lengths,
                                                            GM_ADDR permuted_values, GM_ADDR permuted_weights,
                                                            GM_ADDR faults_out, GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(Permute2dSparseDataTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  GET_TILING_DATA(tilingData, tiling);
  AscendC::TPipe pipe;
  PermuteKernel<DTYPE_PERMUTE, DTYPE_LENGTHS> kernel;
  kernel.Init(&pipe,
              {permute, lengths, values, weights, in_offsets, out_offsets, permuted_lengths, permuted_values,
               permuted_weights, faults_out},
              tilingData);
  kernel.Process();
}
