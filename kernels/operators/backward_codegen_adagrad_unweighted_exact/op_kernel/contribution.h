// A contribution to a row's gradient, as it is sorted: 16 bytes, the row's key in the concatenated tables first.
#pragma once
#include "embedding_tables.h"

constexpr uint32_t RECORD_BYTES = 16;
constexpr uint32_t RECORD_WORDS = 4;  // key low, key high, source, extra
constexpr uint32_t SORT_TILE = 4096;  // records in the unified buffer at once, until they are sorted
constexpr int64_t BLOCK = 128;        // contributions that are summed one after the other, from zero

// Records in the unified buffer, for the scalar unit.
class Records {
 public:
  __aicore__ inline void Attach(const AscendC::LocalTensor<uint32_t>& words) { words_ = words; }

  __aicore__ inline void Set(uint32_t i, int64_t key, uint32_t source, uint32_t extra) const {
    words_.SetValue(i * RECORD_WORDS, static_cast<uint32_t>(key));
    words_.SetValue(i * RECORD_WORDS + 1, static_cast<uint32_t>(static_cast<uint64_t>(key) >> 32));
    words_.SetValue(i * RECORD_WORDS + 2, source);
    words_.SetValue(i * RECORD_WORDS + 3, extra);
  }

  __aicore__ inline void Copy(uint32_t to, const Records& from, uint32_t i) const {
    const AscendC::LocalTensor<uint64_t> target = words_.ReinterpretCast<uint64_t>();
    const AscendC::LocalTensor<uint64_t> source = from.words_.ReinterpretCast<uint64_t>();
    target.SetValue(to * 2, source.GetValue(i * 2));
    target.SetValue(to * 2 + 1, source.GetValue(i * 2 + 1));
  }

  __aicore__ inline int64_t Key(uint32_t i) const {
    return static_cast<int64_t>(static_cast<uint64_t>(words_.GetValue(i * RECORD_WORDS)) |
                                static_cast<uint64_t>(words_.GetValue(i * RECORD_WORDS + 1)) << 32);
  }
  __aicore__ inline uint32_t Digit(uint32_t i, uint32_t shift, uint32_t mask) const {
    return static_cast<uint32_t>(static_cast<uint64_t>(Key(i)) >> shift) & mask;
  }
  __aicore__ inline uint32_t Source(uint32_t i) const { return words_.GetValue(i * RECORD_WORDS + 2); }
  __aicore__ inline uint32_t Extra(uint32_t i) const { return words_.GetValue(i * RECORD_WORDS + 3); }

 private:
  AscendC::LocalTensor<uint32_t> words_;
};

__aicore__ inline float FloatOfBits(uint32_t bits) {
  union {
    uint32_t bits;
    float value;
  } image;
  image.bits = bits;
  return image.value;
}

__aicore__ inline uint32_t BitsOfFloat(float value) {
  union {
    uint32_t bits;
    float value;
  } image;
  image.value = value;
  return image.bits;
}

// Moves records between GM and the unified buffer.
__aicore__ inline void LoadRecords(const AscendC::LocalTensor<uint32_t>& to,
                                   const AscendC::GlobalTensor<uint32_t>& from, int64_t first, int64_t count) {
  AscendC::DataCopyPad(to, from[static_cast<uint64_t>(first) * RECORD_WORDS],
                       AscendC::DataCopyExtParams(1, static_cast<uint32_t>(count) * RECORD_BYTES, 0, 0, 0),
                       AscendC::DataCopyPadExtParams<uint32_t>(false, 0, 0, 0));
}

__aicore__ inline void StoreRecords(const AscendC::GlobalTensor<uint32_t>& to, int64_t first,
                                    const AscendC::LocalTensor<uint32_t>& from, int64_t count) {
  AscendC::GlobalTensor<uint32_t> target = to[static_cast<uint64_t>(first) * RECORD_WORDS];
  AscendC::DataCopyPad(target, from,
                       AscendC::DataCopyExtParams(1, static_cast<uint32_t>(count) * RECORD_BYTES, 0, 0, 0));
}

// The arguments of the kernel, in one place.
struct BackwardArguments {
  GM_ADDR grad;
  GM_ADDR weights;
  GM_ADDR weightsOffsets;
  GM_ADDR dOffsets;
  GM_ADDR hashSizeCumsum;
  GM_ADDR indices;
  GM_ADDR offsets;
  GM_ADDR momentum1;
  GM_ADDR momentum1Offsets;
  GM_ADDR momentum2;
  GM_ADDR momentum2Offsets;
  GM_ADDR indiceWeights;
  GM_ADDR featureRequiresGrad;
  GM_ADDR indiceWeightsGradient;
};
