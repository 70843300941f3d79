// Fills, indices, broadcasts of elements and strided copies inside the unified buffer.
#pragma once
#include "ascendc/elementwise.h"

namespace AscendC {

struct BrcbRepeatParams {
  BrcbRepeatParams() = default;
  BrcbRepeatParams(uint16_t dstBlk, uint16_t dstRep) : dstBlkStride(dstBlk), dstRepStride(dstRep) {}
  uint32_t blockNumber = 8;
  uint16_t dstBlkStride = 1;
  uint16_t dstRepStride = 8;
};

struct CopyRepeatParams {
  CopyRepeatParams() = default;
  CopyRepeatParams(uint16_t dst, uint16_t src, uint16_t dstRepeat, uint16_t srcRepeat)
      : dstStride(dst), srcStride(src), dstRepeatSize(dstRepeat), srcRepeatSize(srcRepeat) {}
  uint16_t dstStride = 1;
  uint16_t srcStride = 1;
  uint16_t dstRepeatSize = 8;
  uint16_t srcRepeatSize = 8;
};

namespace twin_detail {

template <typename T>
inline constexpr bool kFilled = kOneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>;
template <typename T>
inline constexpr bool kIndexed = kOneOf<T, int16_t, half, int32_t, float>;

// `value(i)` for element i.
template <typename T, typename F>
void FillCount(const char* name, const LocalTensor<T>& dst, int64_t countIn, F value) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint64_t count = CheckCount(countIn);
  if (count == 0) {
    return;
  }
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), 0, count * sizeof(T)));
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = value(i);
  }
  core.Define(dst.Range(), 0, count * sizeof(T));
}

// Lanes that lie side by side in a block are written at once.
template <typename T, typename F>
void FillLanes(const char* name, const LocalTensor<T>& dst, const Lanes& work, uint32_t blockStride,
               uint32_t repeatStride, F value) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  CheckStride(blockStride);
  CheckLaneOperand(dst);
  for (uint32_t r = 0; r < work.Repeats(); ++r) {
    const LaneMask on = work.On(r);
    for (uint32_t lane = 0; lane < kLanesPerRepeat<T>;) {
      if (!on.On(lane)) {
        ++lane;
        continue;
      }
      uint32_t end = lane + 1;
      while (end < kLanesPerRepeat<T> && on.On(end) && (blockStride == 1 || end % kLanesPerBlock<T> != 0)) {
        ++end;
      }
      const uint64_t at = 32ull * (static_cast<uint64_t>(r) * repeatStride +
                                   static_cast<uint64_t>(lane / kLanesPerBlock<T>) * blockStride) +
                          lane % kLanesPerBlock<T> * sizeof(T);
      const uint64_t bytes = (end - lane) * sizeof(T);
      auto* to = core.UbWrite(dst.Range(), at, bytes, sizeof(T));
      for (uint64_t i = 0; lane < end; ++lane, i += sizeof(T)) {
        const T one = value(r, lane);
        std::memcpy(to + i, &one, sizeof(T));
      }
      core.Define(dst.Range(), at, bytes);
    }
  }
}

template <typename T, typename M>
void IndexLanes(const LocalTensor<T>& dst, T first, M mask, int64_t repeatTime, uint16_t dstBlkStride,
                uint8_t dstRepStride) {
  static_assert(kIndexed<T>, "E-30: CreateVecIndex does not take this type");
  const Lanes work(mask, repeatTime, kLanesPerRepeat<T>, true);
  FillLanes("CreateVecIndex", dst, work, dstBlkStride, dstRepStride, [first](uint32_t repeat, uint32_t lane) {
    return static_cast<T>(first + static_cast<T>(repeat * kLanesPerRepeat<T> + lane));
  });
}

template <typename T, typename M>
void CopyLanes(const LocalTensor<T>& dst, const LocalTensor<T>& src, M mask, int64_t repeatTime,
               const CopyRepeatParams& p, bool setsMask) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "E-30: Copy does not take this type");
  twin::Core::Current().Issue(PIPE_V, "Copy");
  const Lanes work(mask, repeatTime, kLanesPerRepeat<T>, setsMask);
  OverLanes(
      work, Operand<T>(dst, p.dstStride, p.dstRepeatSize), [](T x) { return x; },
      Operand<T>(src, p.srcStride, p.srcRepeatSize));
}

}  // namespace twin_detail

template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& value, const int32_t& count) {
  static_assert(twin_detail::kFilled<T>, "E-30: Duplicate does not take this type");
  twin_detail::FillCount("Duplicate", dst, count, [value](uint64_t) { return value; });
}

template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& value, const uint64_t mask[], const int64_t repeatTime,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride) {
  static_assert(twin_detail::kFilled<T>, "E-30: Duplicate does not take this type");
  const twin_detail::Lanes work(mask, repeatTime, twin_detail::kLanesPerRepeat<T>, isSetMask);
  twin_detail::FillLanes("Duplicate", dst, work, dstBlockStride, dstRepeatStride,
                         [value](uint32_t, uint32_t) { return value; });
}

template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& value, uint64_t mask, const int64_t repeatTime,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride) {
  static_assert(twin_detail::kFilled<T>, "E-30: Duplicate does not take this type");
  const twin_detail::Lanes work(mask, repeatTime, twin_detail::kLanesPerRepeat<T>, isSetMask);
  twin_detail::FillLanes("Duplicate", dst, work, dstBlockStride, dstRepeatStride,
                         [value](uint32_t, uint32_t) { return value; });
}

template <typename T>
void CreateVecIndex(LocalTensor<T> dst, const T& first, uint32_t count) {
  static_assert(twin_detail::kIndexed<T>, "E-30: CreateVecIndex does not take this type");
  twin_detail::FillCount("CreateVecIndex", dst, count,
                         [first](uint64_t i) { return static_cast<T>(first + static_cast<T>(i)); });
}

template <typename T>
void CreateVecIndex(LocalTensor<T>& dst, const T& first, uint64_t mask, const int64_t repeatTime, uint16_t dstBlkStride,
                    uint8_t dstRepStride) {
  twin_detail::IndexLanes(dst, first, mask, repeatTime, dstBlkStride, dstRepStride);
}

template <typename T>
void CreateVecIndex(LocalTensor<T>& dst, const T& first, const uint64_t mask[], const int64_t repeatTime,
                    uint16_t dstBlkStride, uint8_t dstRepStride) {
  twin_detail::IndexLanes(dst, first, mask, repeatTime, dstBlkStride, dstRepStride);
}

template <typename T>
void ArithProgression(const LocalTensor<T>& dst, const T first, const T difference, const int32_t count) {
  static_assert(twin_detail::kIndexed<T>, "E-30: ArithProgression does not take this type");
  twin_detail::FillCount("ArithProgression", dst, count, [first, difference](uint64_t i) {
    return static_cast<T>(first + static_cast<T>(i) * difference);
  });
}

template <typename T>
void Arange(const LocalTensor<T>& dst, const T first, const T difference, const int32_t count) {
  ArithProgression(dst, first, difference, count);
}

// Each repeat takes eight elements and fills eight blocks, one with each.
template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeatTime,
          const BrcbRepeatParams& params) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "E-30: Brcb does not take this type");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Brcb");
  twin_detail::CheckLaneOperand(src);
  for (uint32_t r = 0; r < repeatTime; ++r) {
    for (uint32_t j = 0; j < 8; ++j) {
      const uint64_t from = (static_cast<uint64_t>(r) * 8 + j) * sizeof(T);
      const uint64_t at = 32ull * (static_cast<uint64_t>(r) * params.dstRepStride + j * params.dstBlkStride);
      if (core.UbWrittenNow(src.Range(), from, sizeof(T))) {
        core.Trap("E-27", "Brcb reads UB 0x%llx, which it has written",
                  static_cast<unsigned long long>(src.GetPhyAddr() + from));
      }
      T value;
      std::memcpy(&value, core.UbRead(src.Range(), from, sizeof(T), sizeof(T)), sizeof(T));
      const bool defined = core.Defined(src.Range(), from, sizeof(T));
      auto* to = core.UbWrite(dst.Range(), at, 32);
      for (uint32_t i = 0; i < 32; i += sizeof(T)) {
        std::memcpy(to + i, &value, sizeof(T));
      }
      defined ? core.Define(dst.Range(), at, 32) : core.Undefine(dst.Range(), at, 32);
    }
  }
}

template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const int64_t repeatTime,
          const CopyRepeatParams& params) {
  twin_detail::CopyLanes(dst, src, mask, repeatTime, params, isSetMask);
}

template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const int64_t repeatTime,
          const CopyRepeatParams& params) {
  twin_detail::CopyLanes(dst, src, mask, repeatTime, params, isSetMask);
}

// One tile of 16 x 16 elements of two bytes.
template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src) {
  static_assert(kOneOf<T, int16_t, uint16_t, half>, "E-30: Transpose does not take this type");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Transpose");
  const auto* from = reinterpret_cast<const T*>(core.UbRead(src.Range(), 0, 512));
  T tile[256];
  bool defined[256];
  for (uint32_t i = 0; i < 256; ++i) {
    const uint32_t source = i % 16 * 16 + i / 16;
    tile[i] = from[source];
    defined[i] = core.Defined(src.Range(), source * sizeof(T), sizeof(T));
  }
  std::memcpy(core.UbWrite(dst.Range(), 0, 512), tile, 512);
  for (uint32_t i = 0; i < 256; ++i) {
    defined[i] ? core.Define(dst.Range(), i * sizeof(T), sizeof(T))
               : core.Undefine(dst.Range(), i * sizeof(T), sizeof(T));
  }
}

// Fills global memory from the unified buffer.
template <typename T>
void InitGlobalMemory(GlobalTensor<T>& tensor, const uint64_t size, const T value) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_MTE3, "InitGlobalMemory");
  if (size == 0) {
    return;
  }
  tensor.Check(0, size * sizeof(T));
  auto* to = core.GmWrite(const_cast<__gm__ T*>(tensor.GetPhyAddr()), size * sizeof(T));
  for (uint64_t i = 0; i < size; ++i) {
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T>
void Fill(GlobalTensor<T>& tensor, const uint64_t size, const T value) {
  InitGlobalMemory(tensor, size, value);
}

template <typename T>
void InitOutput(GlobalTensor<T> tensor, uint32_t size, T value = T(0)) {
  InitGlobalMemory(tensor, size, value);
}

}  // namespace AscendC
