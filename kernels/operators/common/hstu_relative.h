// The relative bias: position[distance in tokens] + time[bucket of the seconds between], for a strip of scores at a
// time. It exists in local memory alone, in the backward pass too.
#pragma once
#include "hstu_tile_seconds.h"
#include "hstu_time_buckets.h"
#include "hstu_turned_table.h"

namespace hstu {

struct RelativeInputs {
  GM_ADDR position;
  GM_ADDR time;
  GM_ADDR times;
  GM_ADDR cells;
};

// What takes the place of Addends. learns: sums the gradients of both tables besides.
template <bool learns>
class RelativeBias {
 public:
  // `workspace` is this core's.
  __aicore__ inline void Init(AscendC::TPipe* pipe, const HstuTilingData& tiling, const RelativeInputs& inputs,
                              const AscendC::GlobalTensor<float>& workspace) {
    const HstuRelative& relative = tiling.relative;
    const uint32_t floats = tiling.stripElements * static_cast<uint32_t>(sizeof(float));
    pipe->InitBuffer(strips_, 1, floats);
    pipe->InitBuffer(seconds_, floats);
    pipe->InitBuffer(values_, floats);
    pipe->InitBuffer(bits_, tiling.stripElements / 8);
    buckets_.Init(pipe, inputs.cells, inputs.time, relative.buckets);
    tileSeconds_.Init(pipe, inputs.times, tiling.keyRows);
    table_.Init(pipe, tiling);
    turned_ = workspace[relative.turnedOffset];
    AscendC::GlobalTensor<float> position;
    position.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(inputs.position),
                             static_cast<uint64_t>(relative.positions));
    table_.Write(position, turned_);
    if constexpr (learns) {
      const int64_t sums = relative.buckets * HSTU_SUM_LANES;
      pipe->InitBuffer(timeSums_, static_cast<uint32_t>(sums * static_cast<int64_t>(sizeof(float))));
      AscendC::Duplicate(timeSums_.Get<float>(), 0.0f, static_cast<int32_t>(sums));
      sums_ = workspace[relative.sumsOffset];
      table_.Fill(sums_, 0, static_cast<int64_t>(relative.sumElements), 0.0f);
    }
  }

  // Before the strips of a tile: queries [row, row + rows), keys [column, column + columns).
  __aicore__ inline void OpenTile(const Sequence& sequence, const Mask& mask, int64_t row, int64_t rows, int64_t column,
                                  int64_t columns) {
    history_ = mask.History();
    tileSeconds_.Open(sequence, row, rows, column, columns);
  }

  __aicore__ inline void AddBias(const AscendC::LocalTensor<float>& scores, int64_t /*batch*/, int64_t /*head*/,
                                 int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t pitch) {
    AscendC::LocalTensor<float> strip = LoadPositions(row, rows, column, pitch);
    const int32_t count = static_cast<int32_t>(rows * pitch);
    AscendC::LocalTensor<float> seconds = seconds_.Get<float>();
    AscendC::LocalTensor<float> values = values_.Get<float>();
    AscendC::LocalTensor<uint8_t> bits = bits_.Get<uint8_t>();
    tileSeconds_.Fill(seconds, values, row, rows, columns, pitch);
    FindBuckets(row, rows);
    AscendC::Duplicate(values, buckets_.Value(firstBucket_), count);
    Then();
    for (int64_t bucket = firstBucket_ + 1; bucket <= lastBucket_; ++bucket) {
      AscendC::CompareScalar(bits, seconds, buckets_.Edge(bucket), AscendC::CMPMODE::LT, static_cast<uint32_t>(count));
      Then();
      AscendC::Select(values, bits, values, buckets_.Value(bucket), AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE,
                      static_cast<uint32_t>(count));
      Then();
    }
    AscendC::Add(values, values, strip, count);
    Then();
    AscendC::Add(scores, scores, values, count);
    Then();
    strips_.FreeTensor(strip);
  }

  // There is no mask of the caller's.
  __aicore__ inline void LoadMask(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) {}
  __aicore__ inline void Multiply(const AscendC::LocalTensor<float>&) {}
  __aicore__ inline void Done() {}

  // Adds the strip's score gradients to the sums of its distances and buckets, and uses them up. The bias of the strip
  // was the last one made. One core adds in one order: the sums do not depend on the order of pipes.
  __aicore__ inline void SumGradients(const AscendC::LocalTensor<float>& gradients, int64_t row, int64_t rows,
                                      int64_t column, int64_t columns, int64_t pitch) {
    if constexpr (learns) {
      SumDistances(gradients, row, rows, column, columns, pitch);
      // Columns behind the tile's end hold what the workspace held.
      for (int64_t r = 0; columns < pitch && r < rows; ++r) {
        ZeroRange(gradients, r * pitch + columns, (r + 1) * pitch);
      }
      Then();
      SumBuckets(gradients, rows * pitch);
    }
  }

  __aicore__ inline TurnedTable& Table() { return table_; }
  __aicore__ inline AscendC::LocalTensor<float> TimeSums() { return timeSums_.Get<float>(); }

 private:
  __aicore__ inline int64_t Place(int64_t row, int64_t column) const {
    return table_.Place(Least(row, history_), column);  // all targets stand where the next token would
  }

  __aicore__ inline AscendC::LocalTensor<float> LoadPositions(int64_t row, int64_t rows, int64_t column,
                                                              int64_t pitch) {
    AscendC::LocalTensor<float> strip = strips_.template AllocTensor<float>();
    const AscendC::DataCopyExtParams burst(1, static_cast<uint32_t>(pitch * static_cast<int64_t>(sizeof(float))), 0, 0,
                                           0);
    for (int64_t r = 0; r < rows; ++r) {
      AscendC::DataCopyPad(strip[static_cast<uint32_t>(r * pitch)],
                           turned_[static_cast<uint64_t>(Place(row + r, column))], burst,
                           AscendC::DataCopyPadExtParams<float>(false, 0, 0, 0.0f));
    }
    strips_.EnQue(strip);
    return strips_.template DeQue<float>();
  }

  // Timestamps mostly rise, so that a strip has few buckets.
  __aicore__ inline void FindBuckets(int64_t row, int64_t rows) {
    float least = 0.0f;
    float most = 0.0f;
    const bool bounded = tileSeconds_.Bounds(row, rows, least, most);
    firstBucket_ = bounded ? buckets_.Of(least) : 0;
    lastBucket_ = bounded ? buckets_.Of(most) : buckets_.Count() - 1;
  }

  __aicore__ inline void SumDistances(const AscendC::LocalTensor<float>& gradients, int64_t row, int64_t rows,
                                      int64_t column, int64_t columns, int64_t pitch) {
    const AscendC::DataCopyExtParams burst(1, static_cast<uint32_t>(columns * static_cast<int64_t>(sizeof(float))), 0,
                                           0, 0);
    WaitFor<AscendC::HardEvent::V_MTE3>();
    AscendC::SetAtomicAdd<float>();
    for (int64_t r = 0; r < rows; ++r) {
      AscendC::DataCopyPad(sums_[static_cast<uint64_t>(Place(row + r, column))],
                           gradients[static_cast<uint32_t>(r * pitch)], burst);
      AscendC::PipeBarrier<PIPE_MTE3>();  // rows overlap
    }
    AscendC::SetAtomicNone();
    WaitFor<AscendC::HardEvent::MTE3_V>();
  }

  __aicore__ inline void SumBuckets(const AscendC::LocalTensor<float>& gradients, int64_t elements) {
    const int32_t count = static_cast<int32_t>(elements);
    AscendC::LocalTensor<float> seconds = seconds_.Get<float>();
    AscendC::LocalTensor<float> values = values_.Get<float>();
    AscendC::LocalTensor<uint8_t> bits = bits_.Get<uint8_t>();
    for (int64_t bucket = firstBucket_; bucket < lastBucket_; ++bucket) {
      AscendC::CompareScalar(bits, seconds, buckets_.Edge(bucket + 1), AscendC::CMPMODE::LT,
                             static_cast<uint32_t>(count));
      Then();
      AscendC::Select(values, bits, gradients, 0.0f, AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE,
                      static_cast<uint32_t>(count));
      Then();
      AscendC::Sub(gradients, gradients, values, count);  // what is left belongs to later buckets
      AddSum(values, elements, bucket);
    }
    AddSum(gradients, elements, lastBucket_);
  }
  // Folds the values to HSTU_SUM_LANES and adds them to the bucket's.
  __aicore__ inline void AddSum(const AscendC::LocalTensor<float>& values, int64_t elements, int64_t bucket) {
    Then();
    while (elements > HSTU_SUM_LANES) {
      const int64_t half = RoundUp((elements + 1) / 2, HSTU_SUM_LANES);
      AscendC::Add(values, values, values[static_cast<uint32_t>(half)], static_cast<int32_t>(elements - half));
      Then();
      elements = half;
    }
    AscendC::LocalTensor<float> sums = timeSums_.Get<float>()[static_cast<uint32_t>(bucket * HSTU_SUM_LANES)];
    AscendC::Add(sums, sums, values, static_cast<int32_t>(HSTU_SUM_LANES));
    Then();
  }

  int64_t history_;
  int64_t firstBucket_;  // of the last strip
  int64_t lastBucket_;
  TimeBuckets buckets_;
  TileSeconds tileSeconds_;
  TurnedTable table_;
  AscendC::GlobalTensor<float> turned_;
  AscendC::GlobalTensor<float> sums_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> strips_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> seconds_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> values_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> bits_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> timeSums_;
};

}  // namespace hstu
