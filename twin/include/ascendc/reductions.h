// The reductions that a kernel calls.
#pragma once
#include "ascendc/reduce.h"

namespace AscendC {

template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const int32_t count) {
  twin::Core::Current().Issue(PIPE_V, "ReduceSum");
  twin_detail::CheckReduced(dst, sizeof(T));
  const auto repeats = twin_detail::ReadCount(src, twin_detail::CheckCount(count));
  twin_detail::StoreSum(dst, sharedTmpBuffer, repeats, false);
}

#define TWIN_REDUCE_SUM(MASK)                                                                                          \
  template <typename T>                                                                                                \
  void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, MASK,    \
                 const int64_t repeatTime, const int32_t srcRepStride) {                                               \
    twin::Core::Current().Issue(PIPE_V, "ReduceSum");                                                                  \
    twin_detail::CheckReduced(dst, sizeof(T));                                                                         \
    const auto repeats = twin_detail::ReadMasked(src, mask, repeatTime, 1, static_cast<uint32_t>(srcRepStride), true); \
    twin_detail::StoreSum(dst, sharedTmpBuffer, repeats, true);                                                        \
  }
TWIN_REDUCE_SUM(const int32_t mask)
TWIN_REDUCE_SUM(const uint64_t mask[])
#undef TWIN_REDUCE_SUM

#define TWIN_REDUCE_EXTREME(NAME, LARGEST, MASK)                                                                       \
  template <typename T>                                                                                                \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, MASK,         \
            const int64_t repeatTime, const int32_t srcRepStride, bool calIndex = false) {                             \
    twin::Core::Current().Issue(PIPE_V, #NAME);                                                                        \
    twin_detail::CheckReduced(dst, 2 * sizeof(T));                                                                     \
    const auto repeats = twin_detail::ReadMasked(src, mask, repeatTime, 1, static_cast<uint32_t>(srcRepStride), true); \
    twin_detail::StoreExtreme<LARGEST>(dst, sharedTmpBuffer, repeats, calIndex);                                       \
  }
#define TWIN_EXTREME(NAME, LARGEST)                                                                      \
  template <typename T>                                                                                  \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer, \
            const int32_t count, bool calIndex = false) {                                                \
    twin::Core::Current().Issue(PIPE_V, #NAME);                                                          \
    twin_detail::CheckReduced(dst, 2 * sizeof(T));                                                       \
    const auto repeats = twin_detail::ReadCount(src, twin_detail::CheckCount(count));                    \
    twin_detail::StoreExtreme<LARGEST>(dst, sharedTmpBuffer, repeats, calIndex);                         \
  }                                                                                                      \
  TWIN_REDUCE_EXTREME(NAME, LARGEST, const int32_t mask)                                                 \
  TWIN_REDUCE_EXTREME(NAME, LARGEST, const uint64_t mask[])
TWIN_EXTREME(ReduceMax, true)
TWIN_EXTREME(ReduceMin, false)
#undef TWIN_EXTREME
#undef TWIN_REDUCE_EXTREME

#define TWIN_WHOLE(MASK)                                                                                             \
  template <typename T, bool isSetMask = true>                                                                       \
  void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, MASK, const int64_t repeatTime,          \
                      const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {          \
    twin_detail::SumRepeats("WholeReduceSum", dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride,  \
                            isSetMask);                                                                              \
  }                                                                                                                  \
  template <typename T, bool isSetMask = true>                                                                       \
  void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int64_t repeatTime, MASK,         \
                       const int32_t, const int32_t srcBlkStride, const int32_t dstRepStride,                        \
                       const int32_t srcRepStride) {                                                                 \
    twin_detail::SumRepeats("RepeatReduceSum", dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, \
                            isSetMask);                                                                              \
  }                                                                                                                  \
  template <typename T, bool isSetMask = true>                                                                       \
  void PairReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int64_t repeatTime, MASK,           \
                     const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {           \
    twin_detail::SumPairs(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, isSetMask);          \
  }
TWIN_WHOLE(const int32_t mask)
TWIN_WHOLE(const uint64_t mask[])
#undef TWIN_WHOLE

#define TWIN_WHOLE_EXTREME(NAME, LARGEST, MASK)                                                                    \
  template <typename T, bool isSetMask = true>                                                                     \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, MASK, const int64_t repeatTime,                  \
            const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,                    \
            ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {                                                  \
    twin::Core::Current().Issue(PIPE_V, #NAME);                                                                    \
    const bool both = order == ReduceOrder::ORDER_VALUE_INDEX || order == ReduceOrder::ORDER_INDEX_VALUE;          \
    twin_detail::CheckReduced(dst, both ? 2 * sizeof(T) : order == ReduceOrder::ORDER_ONLY_VALUE ? sizeof(T) : 4); \
    const auto repeats = twin_detail::ReadMasked(src, mask, repeatTime, static_cast<uint32_t>(srcBlkStride),       \
                                                 static_cast<uint32_t>(srcRepStride), isSetMask);                  \
    twin_detail::StoreExtremes<LARGEST>(dst, repeats, dstRepStride, order);                                        \
  }
TWIN_WHOLE_EXTREME(WholeReduceMax, true, const int32_t mask)
TWIN_WHOLE_EXTREME(WholeReduceMax, true, const uint64_t mask[])
TWIN_WHOLE_EXTREME(WholeReduceMin, false, const int32_t mask)
TWIN_WHOLE_EXTREME(WholeReduceMin, false, const uint64_t mask[])
#undef TWIN_WHOLE_EXTREME

#define TWIN_BLOCKS(NAME, KIND, MASK)                                                                           \
  template <typename T, bool isSetMask = true>                                                                  \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int64_t repeatTime, MASK,               \
            const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {               \
    twin_detail::ReduceBlocks<twin_detail::KIND>(#NAME, dst, src, mask, repeatTime, dstRepStride, srcBlkStride, \
                                                 srcRepStride, isSetMask);                                      \
  }
TWIN_BLOCKS(BlockReduceSum, BlockSum, const int32_t mask)
TWIN_BLOCKS(BlockReduceSum, BlockSum, const uint64_t mask[])
TWIN_BLOCKS(BlockReduceMax, BlockExtreme<true>, const int32_t mask)
TWIN_BLOCKS(BlockReduceMax, BlockExtreme<true>, const uint64_t mask[])
TWIN_BLOCKS(BlockReduceMin, BlockExtreme<false>, const int32_t mask)
TWIN_BLOCKS(BlockReduceMin, BlockExtreme<false>, const uint64_t mask[])
#undef TWIN_BLOCKS

}  // namespace AscendC
