// Stochastic rounding of updated rows to 16 bits: a drawn part of the distance to the next number is added to the
// magnitude, which is then cut. The numbers drawn are those of the CPU (kernels/row_math/rounding_draws.h): a function
// of the seed, the row's place in the weights and the column, in integers below 2^31 since more may saturate.
#pragma once
#include "embedding_tables.h"

#include "backward_codegen_adagrad_unweighted_exact_tiling.h"

// What a type of 16 bits loses of fp32: of 16 drawn bits, those that it does not need; its smallest normal number,
// below which its steps do not get finer; the greatest power of two.
template <typename T>
struct Cut;
template <>
struct Cut<half> {
  static constexpr uint32_t UNUSED_BITS = 3;
  static constexpr float LOWEST = 0x1p-14f;
  static constexpr float HIGHEST = 0x1p15f;
};
template <>
struct Cut<bfloat16_t> {
  static constexpr uint32_t UNUSED_BITS = 0;
  static constexpr float LOWEST = 0x1p-126f;
  static constexpr float HIGHEST = 0x1p127f;
};

class RowRounding {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const BackwardCodegenAdagradUnweightedExactTilingData& tiling) {
    wanted_ = tiling.rounding != 0;
    seed_ = static_cast<uint64_t>(tiling.roundingSeed);
    pitch_ = tiling.tileColumns;
    first_ = -1;
    if (wanted_) {
      pipe->InitBuffer(factors_, pitch_ * sizeof(int32_t));
      pipe->InitBuffer(terms_, pitch_ * sizeof(int32_t));
      pipe->InitBuffer(lasts_, pitch_ * sizeof(int32_t));
    }
  }

  __aicore__ inline bool Wanted() const { return wanted_; }

  // Columns [first, first + pitch) are those of the rows to come.
  __aicore__ inline void SelectColumns(int64_t first) {
    if (first == first_) {
      return;
    }
    first_ = first;
    const Numbers factors = factors_.Get<int32_t>();
    const Numbers terms = terms_.Get<int32_t>();
    const Numbers lasts = lasts_.Get<int32_t>();
    embedding::Fence<AscendC::HardEvent::V_S>();  // the columns before have been read
    for (uint32_t i = 0; i < pitch_; ++i) {
      const uint64_t word = Word(~seed_, static_cast<uint64_t>(first + i));
      factors.SetValue(i, FactorOf(word));
      terms.SetValue(i, TermOf(word));
      lasts.SetValue(i, LastOf(word));
    }
    embedding::Fence<AscendC::HardEvent::S_V>();
  }

  // `results` = rows of `wide`, which is lost with `work` and `power`: buffers of the group's size. Row j of `count`,
  // for each set bit j of `wanted`, starts at element starts[j] of the weights and has columns[j] columns here.
  template <typename T>
  __aicore__ inline void Round(const AscendC::LocalTensor<T>& results, const AscendC::LocalTensor<float>& wide,
                               const AscendC::LocalTensor<float>& work, const AscendC::LocalTensor<float>& power,
                               uint32_t count, uint64_t wanted, const int64_t* starts, const uint32_t* columns) {
    const int32_t lanes = static_cast<int32_t>(count * pitch_);
    Draw<T>(work.ReinterpretCast<int32_t>(), lanes, count, wanted, starts, columns);
    AscendC::Cast(work, work.ReinterpretCast<int32_t>(), AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(lanes));
    Order();
    AscendC::Muls<float>(work, work, 0x1p-23f, lanes);
    PowersOf(power.ReinterpretCast<uint32_t>(), wide.ReinterpretCast<uint32_t>(), lanes);
    AscendC::Maxs<float>(power, power, Cut<T>::LOWEST, lanes);
    Order();
    AscendC::Mins<float>(power, power, Cut<T>::HIGHEST, lanes);
    Order();
    AscendC::Mul(work, work, power, lanes);
    Order();
    SignsOf(power.ReinterpretCast<uint32_t>(), wide.ReinterpretCast<uint32_t>(), lanes);
    AscendC::Abs(wide, wide, lanes);
    Order();
    AscendC::Add(wide, wide, work, lanes);
    Order();
    AscendC::Or(wide.ReinterpretCast<uint16_t>(), wide.ReinterpretCast<uint16_t>(), power.ReinterpretCast<uint16_t>(),
                2 * lanes);
    Order();
    AscendC::Cast(results, wide, AscendC::RoundMode::CAST_TRUNC, static_cast<uint32_t>(lanes));
    Order();
  }

 private:
  using Numbers = AscendC::LocalTensor<int32_t>;
  using Bits = AscendC::LocalTensor<uint32_t>;

  static constexpr uint32_t PRODUCT_SHIFT = 10;
  static constexpr uint32_t SQUARE_SHIFT = 7;
  static constexpr uint32_t WORD_BITS = 32;
  static constexpr uint32_t HASH_BITS = 15;
  static constexpr uint32_t DRAWN_BITS = 16;
  static constexpr uint32_t MOST_ROWS = 64;  // bits of `wanted`

  __aicore__ inline static void Order() { AscendC::PipeBarrier<PIPE_V>(); }

  // The finaliser of SplitMix64.
  __aicore__ inline static uint64_t Scrambled(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  __aicore__ inline static uint64_t Word(uint64_t seed, uint64_t number) {
    const uint64_t golden = 0x9e3779b97f4a7c15ULL;
    return Scrambled(Scrambled(seed + golden) ^ (number + golden));
  }
  __aicore__ inline static int32_t FactorOf(uint64_t word) { return static_cast<int32_t>(word & 0x7fff); }
  __aicore__ inline static int32_t TermOf(uint64_t word) { return static_cast<int32_t>(word >> 16 & 0xffff); }
  __aicore__ inline static int32_t LastOf(uint64_t word) { return static_cast<int32_t>(word >> 32 & 0xffff); }

  // hash = (row.term + column.term + (row.factor * column.factor >> 10)) mod 2^15, and of it
  // (row.last + column.last + (hash * hash >> 7)) mod 2^16, without the unused bits.
  template <typename T>
  __aicore__ inline void Draw(const Numbers& drawn, int32_t lanes, uint32_t count, uint64_t wanted,
                              const int64_t* starts, const uint32_t* columns) {
    uint64_t words[MOST_ROWS];
    for (uint32_t j = 0; j < count; ++j) {
      if ((wanted >> j & 1ULL) != 0) {
        words[j] = Word(seed_, static_cast<uint64_t>(starts[j]));
        AscendC::Muls<int32_t>(drawn[j * pitch_], factors_.Get<int32_t>(), FactorOf(words[j]),
                               static_cast<int32_t>(columns[j]));
      }
    }
    Order();
    const Bits bits = drawn.ReinterpretCast<uint32_t>();
    AscendC::ShiftRight<uint32_t>(bits, bits, PRODUCT_SHIFT, lanes);
    Order();
    for (uint32_t j = 0; j < count; ++j) {
      if ((wanted >> j & 1ULL) != 0) {
        AddTerms(drawn[j * pitch_], terms_.Get<int32_t>(), TermOf(words[j]), static_cast<int32_t>(columns[j]));
      }
    }
    AscendC::ShiftLeft<uint32_t>(bits, bits, WORD_BITS - HASH_BITS, lanes);
    Order();
    AscendC::ShiftRight<uint32_t>(bits, bits, WORD_BITS - HASH_BITS, lanes);
    Order();
    AscendC::Mul(drawn, drawn, drawn, lanes);
    Order();
    AscendC::ShiftRight<uint32_t>(bits, bits, SQUARE_SHIFT, lanes);
    Order();
    for (uint32_t j = 0; j < count; ++j) {
      if ((wanted >> j & 1ULL) != 0) {
        AddTerms(drawn[j * pitch_], lasts_.Get<int32_t>(), LastOf(words[j]), static_cast<int32_t>(columns[j]));
      }
    }
    AscendC::ShiftLeft<uint32_t>(bits, bits, WORD_BITS - DRAWN_BITS, lanes);
    Order();
    AscendC::ShiftRight<uint32_t>(bits, bits, WORD_BITS - DRAWN_BITS + Cut<T>::UNUSED_BITS, lanes);
    Order();
  }

  __aicore__ inline static void AddTerms(const Numbers& sums, const Numbers& ofColumns, int32_t ofRow,
                                         int32_t columns) {
    AscendC::Add(sums, sums, ofColumns, columns);
    Order();
    AscendC::Adds<int32_t>(sums, sums, ofRow, columns);
    Order();
  }

  // The power of two of each number.
  __aicore__ inline static void PowersOf(const Bits& powers, const Bits& numbers, int32_t lanes) {
    AscendC::ShiftLeft<uint32_t>(powers, numbers, 1, lanes);
    Order();
    AscendC::ShiftRight<uint32_t>(powers, powers, 24, lanes);
    Order();
    AscendC::ShiftLeft<uint32_t>(powers, powers, 23, lanes);
    Order();
  }

  __aicore__ inline static void SignsOf(const Bits& signs, const Bits& numbers, int32_t lanes) {
    AscendC::ShiftRight<uint32_t>(signs, numbers, 31, lanes);
    Order();
    AscendC::ShiftLeft<uint32_t>(signs, signs, 31, lanes);
    Order();
  }

  AscendC::TBuf<AscendC::TPosition::VECCALC> factors_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> terms_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> lasts_;
  uint64_t seed_;
  int64_t first_;
  uint32_t pitch_;
  bool wanted_;
};
