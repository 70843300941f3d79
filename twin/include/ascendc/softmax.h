// SoftMax, SimpleSoftMax, SoftmaxFlash and SoftmaxFlashV2 of the library layer: of rows in ND, or in NZ.
#pragma once
#include <algorithm>
#include <cmath>

#include "ascendc/row_tile.h"
#include "kernel_tiling/kernel_tiling.h"
#include "kernel_tiling/library_scratch.h"

using AscendC::tiling::SoftMaxTiling;

namespace AscendC {

using tiling::SoftMaxTiling;

// Rows and columns as stored, and as they count. Zeros: those of the tiling.
struct SoftMaxShapeInfo {
  uint32_t srcM = 0;
  uint32_t srcK = 0;
  uint32_t oriSrcM = 0;
  uint32_t oriSrcK = 0;
};

enum class SoftmaxMode { SOFTMAX_NORMAL = 0, SOFTMAX_OUTPUT_WITHOUT_BRC = 1 };

struct SoftmaxConfig {
  bool isCheckTiling = true;  // a shape that is not the tiling's has a tiling made in the kernel
  uint32_t oriSrcM = 0;
  uint32_t oriSrcK = 0;
  SoftmaxMode mode = SoftmaxMode::SOFTMAX_NORMAL;
};
constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {true, 0, 0, SoftmaxMode::SOFTMAX_NORMAL};

namespace twin_detail {

template <typename T, typename D, typename B>
void CheckSoftMaxTypes() {
  static_assert(std::is_same<D, B>::value || (std::is_same<D, half>::value && std::is_same<B, float>::value),
                "E-30: sums and maxima have the type of the source, or are float beside a source of half");
  static_assert(std::is_void<T>::value || std::is_same<T, D>::value || std::is_same<T, B>::value,
                "E-30: softmax of tensors of another type than T");
}

// What one call works on, after its checks. In NZ the rows' 16 first columns lie below each other, and behind them the
// next 16.
template <typename T>
class SoftMaxCall {
 public:
  SoftMaxCall(const char* name, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& info, const SoftmaxConfig& config,
              bool isBasicBlock, const LocalTensor<uint8_t>* scratch, bool nz = false,
              const char* least = "GetSoftMaxMinTmpSize")
      : name_(name),
        nz_(nz),
        rows_(info.srcM != 0 ? info.srcM : tiling.srcM),
        columns_(info.srcK != 0 ? info.srcK : tiling.srcK),
        counted_(info.oriSrcK != 0     ? info.oriSrcK
                 : config.oriSrcK != 0 ? config.oriSrcK
                                       : columns_),
        scratch_(scratch) {
    static_assert(kFloating<T>, "E-30: softmax takes half and float");
    auto& core = twin::Core::Current();
    core.Issue(PIPE_V, name);
    CheckRowBytes(name, columns_, counted_, sizeof(T));
    if (nz && (rows_ % kNzSide != 0 || columns_ % kNzSide != 0)) {
      core.Trap("E-25", "%s of %u rows of %u elements in NZ: both are whole 16", name, rows_, columns_);
    }
    if (config.mode != SoftmaxMode::SOFTMAX_NORMAL) {
      core.Trap("E-25", "%s: the mode without broadcasts is not on the twin", name);
    }
    if (isBasicBlock && (columns_ % 64 != 0 || columns_ < 256 / sizeof(T) || columns_ >= 2048 || rows_ % 8 != 0)) {
      core.Trap("E-25",
                "%s of %u rows of %u elements is no basic block: rows of whole 64 elements, from 256 bytes to "
                "below 2048 elements, and whole 8 of them",
                name, rows_, columns_);
    }
    const bool same = rows_ == tiling.srcM && columns_ == tiling.srcK;
    if (!same && !config.isCheckTiling) {
      core.Trap("E-25", "%s of %u rows of %u elements, its tiling is for %u of %u", name, rows_, columns_, tiling.srcM,
                tiling.srcK);
    }
    if (same && tiling.splitM == 0 && rows_ != 0) {
      core.Trap("E-25", "%s: its tiling was made for less work space than %s says", name, least);
    }
    scratchBytes_ = (same ? tiling.splitM : 1) * twin::SoftMaxRowBytes(columns_);
  }

  uint32_t Rows() const { return rows_; }

  // dst may be src; all others are apart from both.
  template <typename... Blocks>
  void CheckOperands(const LocalTensor<T>& dst, const LocalTensor<T>& src, const Blocks&... blocks) const {
    const uint64_t elements = static_cast<uint64_t>(rows_) * columns_;
    CheckSameOrApart(name_, dst, src, elements);
    CheckScratch(name_, scratch_, dst, elements);
    CheckScratch(name_, scratch_, src, elements);
    (CheckBlockTensor(blocks, dst, src, elements), ...);
  }
  template <typename A, typename B>
  void CheckBlocksApart(const LocalTensor<A>& a, const LocalTensor<B>& b) const {
    CheckApart(name_, a, rows_ * 32ull, b, rows_ * 32ull);
  }
  void UseScratch() const { twin_detail::UseScratch(name_, scratch_, scratchBytes_); }

  std::vector<float> Read(const LocalTensor<T>& src, uint32_t row, bool& defined) const {
    if (!nz_) {
      return ReadRow(src, row, columns_, counted_, defined);
    }
    std::vector<float> values;
    for (uint32_t from = 0; from < counted_; from += kNzSide) {
      const auto part =
          ReadRow(src, from / kNzSide * rows_ + row, kNzSide, std::min(kNzSide, counted_ - from), defined);
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }
  void Write(const LocalTensor<T>& dst, uint32_t row, const std::vector<float>& values, bool defined) const {
    if (!nz_) {
      WriteRow(dst, row, columns_, values, defined);
      return;
    }
    for (uint32_t from = 0; from < columns_; from += kNzSide) {
      const auto first = values.begin() + std::min(from, counted_);
      const auto last = values.begin() + std::min(from + kNzSide, counted_);
      WriteRow(dst, from / kNzSide * rows_ + row, kNzSide, std::vector<float>(first, last), defined);
    }
  }
  void LoseSource(const LocalTensor<T>& src, const LocalTensor<T>& dst) const {
    twin_detail::LoseSource(src, dst, static_cast<uint64_t>(rows_) * columns_);
  }

 private:
  template <typename B>
  void CheckBlockTensor(const LocalTensor<B>& block, const LocalTensor<T>& dst, const LocalTensor<T>& src,
                        uint64_t elements) const {
    CheckApart(name_, block, rows_ * 32ull, dst, elements * sizeof(T));
    CheckApart(name_, block, rows_ * 32ull, src, elements * sizeof(T));
    CheckScratch(name_, scratch_, block, rows_ * 32ull / sizeof(B));
  }

  static constexpr uint32_t kNzSide = 16;

  const char* name_;
  bool nz_;
  uint32_t rows_, columns_, counted_;
  const LocalTensor<uint8_t>* scratch_;
  uint64_t scratchBytes_ = 0;
};

inline float LargestOf(const std::vector<float>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}
// values become exp(values - largest); the sum of these.
inline float ExpOf(std::vector<float>& values, float largest) {
  float sum = 0;
  for (float& value : values) {
    value = std::exp(value - largest);
    sum += value;
  }
  return sum;
}

// `blocks` takes (row, largest, sum, defined).
template <typename T, typename F>
void SoftMaxRows(const SoftMaxCall<T>& call, const LocalTensor<T>& dst, const LocalTensor<T>& src, F blocks) {
  call.UseScratch();
  for (uint32_t row = 0; row < call.Rows(); ++row) {
    bool defined = true;
    std::vector<float> values = call.Read(src, row, defined);
    const float largest = LargestOf(values);
    const float sum = ExpOf(values, largest);
    for (float& value : values) {
      value /= sum;
    }
    call.Write(dst, row, values, defined);
    blocks(row, largest, sum, defined);
  }
}

template <typename T, typename B, bool reusesSource>
void SoftMaxWithSums(const SoftMaxCall<T>& call, const LocalTensor<T>& dst, const LocalTensor<B>& sums,
                     const LocalTensor<B>& maxima, const LocalTensor<T>& src) {
  call.CheckOperands(dst, src, sums, maxima);
  call.CheckBlocksApart(sums, maxima);
  SoftMaxRows(call, dst, src, [&](uint32_t row, float largest, float sum, bool defined) {
    WriteBlock(maxima, row, largest, defined);
    WriteBlock(sums, row, sum, defined);
  });
  if (reusesSource) {
    call.LoseSource(src, dst);
  }
}

template <typename T, bool reusesSource>
void SoftMaxAlone(const SoftMaxCall<T>& call, const LocalTensor<T>& dst, const LocalTensor<T>& src) {
  call.CheckOperands(dst, src);
  SoftMaxRows(call, dst, src, [](uint32_t, float, float, bool) {});
  if (reusesSource) {
    call.LoseSource(src, dst);
  }
}

template <typename T, typename B, bool reusesSource>
void SoftMaxBySums(const SoftMaxCall<T>& call, const LocalTensor<T>& dst, const LocalTensor<B>& sums,
                   const LocalTensor<B>& maxima, const LocalTensor<T>& src) {
  call.CheckOperands(dst, src, sums, maxima);
  call.UseScratch();
  for (uint32_t row = 0; row < call.Rows(); ++row) {
    bool defined = true;
    std::vector<float> values = call.Read(src, row, defined);
    const float largest = ReadBlock(maxima, row, defined), sum = ReadBlock(sums, row, defined);
    ExpOf(values, largest);
    for (float& value : values) {
      value /= sum;
    }
    call.Write(dst, row, values, defined);
  }
  if (reusesSource) {
    call.LoseSource(src, dst);
  }
}

// `divides`: each part of a row is a softmax of its own (SoftmaxFlash), or what is to be divided at the end (V2). The
// sums and maxima may be kept where they were.
template <typename T, typename B, bool divides, bool reusesSource>
void SoftMaxOfParts(const SoftMaxCall<T>& call, bool updates, const LocalTensor<T>& dst, const LocalTensor<B>& sums,
                    const LocalTensor<B>& maxima, const LocalTensor<T>& src, const LocalTensor<T>& factors,
                    const LocalTensor<B>& inSums, const LocalTensor<B>& inMaxima) {
  if (updates) {
    call.CheckOperands(dst, src, sums, maxima, factors, inSums, inMaxima);
    call.CheckBlocksApart(factors, sums);
    call.CheckBlocksApart(factors, maxima);
  } else {
    call.CheckOperands(dst, src, sums, maxima);
  }
  call.CheckBlocksApart(sums, maxima);
  call.UseScratch();
  for (uint32_t row = 0; row < call.Rows(); ++row) {
    bool defined = true;
    std::vector<float> values = call.Read(src, row, defined);
    float largest = LargestOf(values), before = 0, sumBefore = 0;
    if (updates) {
      before = ReadBlock(inMaxima, row, defined);
      sumBefore = ReadBlock(inSums, row, defined);
      largest = std::max(largest, before);
    }
    float sum = ExpOf(values, largest);
    if (updates) {
      float factor = std::exp(before - largest);
      sum += factor * sumBefore;
      factor = divides ? factor * sumBefore / sum : factor;
      WriteBlock(factors, row, factor, defined);
    }
    for (float& value : values) {
      value = divides ? value / sum : value;
    }
    call.Write(dst, row, values, defined);
    WriteBlock(maxima, row, largest, defined);
    WriteBlock(sums, row, sum, defined);
  }
  if (reusesSource) {
    call.LoseSource(src, dst);
  }
}

}  // namespace twin_detail

// Sums and maxima in the type of the source, or in float beside a source of half.
template <typename T = void, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename D, typename B>
void SoftMax(const LocalTensor<D>& dstTensor, const LocalTensor<B>& sumTensor, const LocalTensor<B>& maxTensor,
             const LocalTensor<D>& srcTensor, const SoftMaxTiling& tiling,
             const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, D, B>();
  const twin_detail::SoftMaxCall<D> call("SoftMax", tiling, softmaxShapeInfo, config, isBasicBlock, nullptr,
                                         isDataFormatNZ);
  twin_detail::SoftMaxWithSums<D, B, isReuseSource>(call, dstTensor, sumTensor, maxTensor, srcTensor);
}
template <typename T = void, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename D, typename B>
void SoftMax(const LocalTensor<D>& dstTensor, const LocalTensor<B>& sumTensor, const LocalTensor<B>& maxTensor,
             const LocalTensor<D>& srcTensor, const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,
             const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, D, B>();
  const twin_detail::SoftMaxCall<D> call("SoftMax", tiling, softmaxShapeInfo, config, isBasicBlock, &sharedTmpBuffer,
                                         isDataFormatNZ);
  twin_detail::SoftMaxWithSums<D, B, isReuseSource>(call, dstTensor, sumTensor, maxTensor, srcTensor);
}

// By sums and maxima that are given.
template <typename T = void, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename D, typename B>
void SimpleSoftMax(const LocalTensor<D>& dstTensor, const LocalTensor<B>& inSumTensor,
                   const LocalTensor<B>& inMaxTensor, const LocalTensor<D>& srcTensor, const SoftMaxTiling& tiling,
                   const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, D, B>();
  const twin_detail::SoftMaxCall<D> call("SimpleSoftMax", tiling, softmaxShapeInfo, config, isBasicBlock, nullptr,
                                         isDataFormatNZ);
  twin_detail::SoftMaxBySums<D, B, isReuseSource>(call, dstTensor, inSumTensor, inMaxTensor, srcTensor);
}
template <typename T = void, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename D, typename B>
void SimpleSoftMax(const LocalTensor<D>& dstTensor, const LocalTensor<B>& inSumTensor,
                   const LocalTensor<B>& inMaxTensor, const LocalTensor<D>& srcTensor,
                   const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,
                   const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, D, B>();
  const twin_detail::SoftMaxCall<D> call("SimpleSoftMax", tiling, softmaxShapeInfo, config, isBasicBlock,
                                         &sharedTmpBuffer, isDataFormatNZ);
  twin_detail::SoftMaxBySums<D, B, isReuseSource>(call, dstTensor, inSumTensor, inMaxTensor, srcTensor);
}

// Of one part of the rows after the other.
template <typename T = void, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,
          bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename D, typename B>
void SoftmaxFlashV2(const LocalTensor<D>& dstTensor, const LocalTensor<B>& expSumTensor,
                    const LocalTensor<B>& maxTensor, const LocalTensor<D>& srcTensor,
                    const LocalTensor<D>& expMaxTensor, const LocalTensor<B>& inExpSumTensor,
                    const LocalTensor<B>& inMaxTensor, const SoftMaxTiling& tiling,
                    const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, D, B>();
  const twin_detail::SoftMaxCall<D> call("SoftmaxFlashV2", tiling, softmaxShapeInfo, config, isBasicBlock, nullptr,
                                         isDataFormatNZ);
  twin_detail::SoftMaxOfParts<D, B, false, isReuseSource>(call, isUpdate, dstTensor, expSumTensor, maxTensor, srcTensor,
                                                          expMaxTensor, inExpSumTensor, inMaxTensor);
}
template <typename T = void, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,
          bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, typename D, typename B>
void SoftmaxFlashV2(const LocalTensor<D>& dstTensor, const LocalTensor<B>& expSumTensor,
                    const LocalTensor<B>& maxTensor, const LocalTensor<D>& srcTensor,
                    const LocalTensor<D>& expMaxTensor, const LocalTensor<B>& inExpSumTensor,
                    const LocalTensor<B>& inMaxTensor, const LocalTensor<uint8_t>& sharedTmpBuffer,
                    const SoftMaxTiling& tiling, const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, D, B>();
  const twin_detail::SoftMaxCall<D> call("SoftmaxFlashV2", tiling, softmaxShapeInfo, config, isBasicBlock,
                                         &sharedTmpBuffer, isDataFormatNZ);
  twin_detail::SoftMaxOfParts<D, B, false, isReuseSource>(call, isUpdate, dstTensor, expSumTensor, maxTensor, srcTensor,
                                                          expMaxTensor, inExpSumTensor, inMaxTensor);
}

template <typename T = void, bool isReuseSource = false, bool isBasicBlock = false, typename D, typename B>
void SoftmaxFlash(const LocalTensor<D>& dstTensor, const LocalTensor<B>& sumTensor, const LocalTensor<B>& maxTensor,
                  const LocalTensor<D>& srcTensor, const LocalTensor<D>& expMaxTensor,
                  const LocalTensor<B>& inSumTensor, const LocalTensor<B>& inMaxTensor, const SoftMaxTiling& tiling,
                  bool isUpdate = false, const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, D, B>();
  const twin_detail::SoftMaxCall<D> call("SoftmaxFlash", tiling, softmaxShapeInfo, SOFTMAX_DEFAULT_CFG, isBasicBlock,
                                         nullptr);
  twin_detail::SoftMaxOfParts<D, B, true, isReuseSource>(call, isUpdate, dstTensor, sumTensor, maxTensor, srcTensor,
                                                         expMaxTensor, inSumTensor, inMaxTensor);
}
template <typename T = void, bool isReuseSource = false, bool isBasicBlock = false, typename D, typename B>
void SoftmaxFlash(const LocalTensor<D>& dstTensor, const LocalTensor<B>& sumTensor, const LocalTensor<B>& maxTensor,
                  const LocalTensor<D>& srcTensor, const LocalTensor<D>& expMaxTensor,
                  const LocalTensor<B>& inSumTensor, const LocalTensor<B>& inMaxTensor,
                  const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling, bool isUpdate = false,
                  const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  twin_detail::CheckSoftMaxTypes<T, D, B>();
  const twin_detail::SoftMaxCall<D> call("SoftmaxFlash", tiling, softmaxShapeInfo, SOFTMAX_DEFAULT_CFG, isBasicBlock,
                                         &sharedTmpBuffer);
  twin_detail::SoftMaxOfParts<D, B, true, isReuseSource>(call, isUpdate, dstTensor, sumTensor, maxTensor, srcTensor,
                                                         expMaxTensor, inSumTensor, inMaxTensor);
}

// Without sums and maxima.
template <typename T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
void SoftMax(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, const SoftMaxTiling& tiling,
             const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  const twin_detail::SoftMaxCall<T> call("SoftMax", tiling, softmaxShapeInfo, config, isBasicBlock, nullptr);
  twin_detail::SoftMaxAlone<T, isReuseSource>(call, dstTensor, srcTensor);
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
void SoftMax(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
             const LocalTensor<uint8_t>& sharedTmpBuffer, const SoftMaxTiling& tiling,
             const SoftMaxShapeInfo& softmaxShapeInfo = {}) {
  const twin_detail::SoftMaxCall<T> call("SoftMax", tiling, softmaxShapeInfo, config, isBasicBlock, &sharedTmpBuffer);
  twin_detail::SoftMaxAlone<T, isReuseSource>(call, dstTensor, srcTensor);
}

}  // namespace AscendC
