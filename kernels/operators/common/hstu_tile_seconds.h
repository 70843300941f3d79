// Seconds between the tokens of a tile: for each cell the float32 nearest to the difference of two int64 times.
#pragma once
#include "hstu_sequences.h"
#include "hstu_vector.h"

namespace hstu {

class TileSeconds {
 public:
  // `rows` times, one for each token.
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR times, int64_t rows) {
    words_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(times), 2 * static_cast<uint64_t>(rows));
    pipe->InitBuffer(moments_, static_cast<uint32_t>(2 * HSTU_TILE_SIDE * static_cast<int64_t>(sizeof(int64_t))));
    pipe->InitBuffer(parts_, static_cast<uint32_t>(2 * HSTU_TILE_SIDE * static_cast<int64_t>(sizeof(float))));
  }

  // Before the strips of a tile: queries [row, row + rows), keys [column, column + columns).
  __aicore__ inline void Open(const Sequence& sequence, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    row_ = row;
    WaitFor<AscendC::HardEvent::S_MTE2>();
    LoadMoments(0, sequence.keyStart + column, columns);
    LoadMoments(HSTU_TILE_SIDE, sequence.keyStart + row, rows);
    WaitFor<AscendC::HardEvent::MTE2_S>();
    firstKey_ = Moment(0);
    lastKey_ = firstKey_;
    Widen(0, columns, firstKey_, lastKey_);
    first_ = firstKey_;
    int64_t last = lastKey_;
    Widen(HSTU_TILE_SIDE, rows, first_, last);
    const uint64_t spread = static_cast<uint64_t>(last) - static_cast<uint64_t>(first_);
    apart_ = (spread >> EXACT_BITS) != 0;
    split_ = (spread >> LOW_BITS) != 0;
    if (!apart_) {
      SplitKeys(columns);
    }
  }

  // Times of the strip's cells into `seconds`; `scratch` is as large.
  __aicore__ inline void Fill(const AscendC::LocalTensor<float>& seconds, const AscendC::LocalTensor<float>& scratch,
                              int64_t row, int64_t rows, int64_t columns, int64_t pitch) const {
    if (apart_) {
      FillCells(seconds, row, rows, columns, pitch);
      return;
    }
    const AscendC::LocalTensor<float> low = parts_.Get<float>();
    const AscendC::LocalTensor<float> high = low[static_cast<uint32_t>(HSTU_TILE_SIDE)];
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t since = Query(row + r) - first_;
      const uint32_t at = static_cast<uint32_t>(r * pitch);
      AscendC::Adds(seconds[at], low, static_cast<float>(since & LOW_MASK), static_cast<int32_t>(pitch));
      if (split_) {
        AscendC::Adds(scratch[at], high, static_cast<float>(since >> LOW_BITS), static_cast<int32_t>(pitch));
      }
    }
    Then();
    if (split_) {
      // Both differences are exact, so the sum is rounded once.
      const int32_t count = static_cast<int32_t>(rows * pitch);
      AscendC::Muls(scratch, scratch, static_cast<float>(LOW_MASK + 1), count);
      Then();
      AscendC::Add(seconds, seconds, scratch, count);
      Then();
    }
  }

  // No cell of the strip has less or more; false where the differences may leave 64 bits.
  __aicore__ inline bool Bounds(int64_t row, int64_t rows, float& least, float& most) const {
    int64_t first = Query(row);
    int64_t last = first;
    for (int64_t r = 1; r < rows; ++r) {
      first = Least(first, Query(row + r));
      last = Most(last, Query(row + r));
    }
    if (apart_) {
      return false;
    }
    least = static_cast<float>(first - lastKey_);
    most = static_cast<float>(last - firstKey_);
    return true;
  }

 private:
  static constexpr int64_t LOW_BITS = 24;  // a float32 holds all integers of as many bits
  static constexpr int64_t EXACT_BITS = 48;
  static constexpr int64_t LOW_MASK = (1 << LOW_BITS) - 1;

  __aicore__ inline int64_t Moment(int64_t place) const {
    return moments_.Get<int64_t>().GetValue(static_cast<uint32_t>(place));
  }
  __aicore__ inline int64_t Query(int64_t row) const { return Moment(HSTU_TILE_SIDE + row - row_); }
  __aicore__ inline void LoadMoments(int64_t place, int64_t token, int64_t count) const {
    const AscendC::LocalTensor<int32_t> words = moments_.Get<int32_t>();
    AscendC::DataCopyPad(words[static_cast<uint32_t>(2 * place)], words_[static_cast<uint64_t>(2 * token)],
                         AscendC::DataCopyExtParams(1, static_cast<uint32_t>(count * 8), 0, 0, 0),
                         AscendC::DataCopyPadExtParams<int32_t>(false, 0, 0, 0));
  }
  __aicore__ inline void Widen(int64_t place, int64_t count, int64_t& first, int64_t& last) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t moment = Moment(place + i);
      first = Least(first, moment);
      last = Most(last, moment);
    }
  }

  // Keys' times since the first of the tile, in two parts, negative: a row of queries adds its own.
  __aicore__ inline void SplitKeys(int64_t columns) const {
    const AscendC::LocalTensor<float> low = parts_.Get<float>();
    const AscendC::LocalTensor<float> high = low[static_cast<uint32_t>(HSTU_TILE_SIDE)];
    WaitFor<AscendC::HardEvent::V_S>();
    for (int64_t c = 0; c < RoundUp(columns, HSTU_COLUMN_UNIT); ++c) {
      const int64_t since = c < columns ? Moment(c) - first_ : 0;
      low.SetValue(static_cast<uint32_t>(c), -static_cast<float>(since & LOW_MASK));
      high.SetValue(static_cast<uint32_t>(c), -static_cast<float>(since >> LOW_BITS));
    }
    WaitFor<AscendC::HardEvent::S_V>();
  }

  // Differences of 2^48 and more, or that leave 64 bits (they wrap): the scalar unit has all bits of them. No clock
  // gives such times; a tile of them costs a scalar step for each cell.
  __aicore__ inline void FillCells(const AscendC::LocalTensor<float>& seconds, int64_t row, int64_t rows,
                                   int64_t columns, int64_t pitch) const {
    WaitFor<AscendC::HardEvent::V_S>();
    for (int64_t r = 0; r < rows; ++r) {
      const uint64_t query = static_cast<uint64_t>(Query(row + r));
      for (int64_t c = 0; c < pitch; ++c) {
        const uint64_t key = c < columns ? static_cast<uint64_t>(Moment(c)) : query;
        seconds.SetValue(static_cast<uint32_t>(r * pitch + c), static_cast<float>(static_cast<int64_t>(query - key)));
      }
    }
    WaitFor<AscendC::HardEvent::S_V>();
  }

  AscendC::GlobalTensor<int32_t> words_;  // two for each time
  int64_t row_;
  int64_t first_;  // of the tile
  int64_t firstKey_;
  int64_t lastKey_;
  bool apart_;  // differences need more than two floats
  bool split_;  // they need more than one
  mutable AscendC::TBuf<AscendC::TPosition::VECCALC> moments_;
  mutable AscendC::TBuf<AscendC::TPosition::VECCALC> parts_;
};

}  // namespace hstu
