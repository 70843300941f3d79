// GatherMask: the lanes that a pattern names, side by side.
#pragma once
#include <vector>

#include "ascendc/lanes.h"

namespace AscendC {

struct GatherMaskParams {
  GatherMaskParams() = default;
  GatherMaskParams(uint8_t blockStride, uint16_t repeats, uint16_t repeatStride, uint8_t patternRepeatStride)
      : src0BlockStride(blockStride),
        repeatTimes(repeats),
        src0RepeatStride(repeatStride),
        src1RepeatStride(patternRepeatStride) {}
  uint8_t src0BlockStride = 1;
  uint16_t repeatTimes = 0;
  uint16_t src0RepeatStride = 8;
  uint8_t src1RepeatStride = 8;
};

namespace twin_detail {

// 1, 2: even, odd lanes; 3 to 6: the first to the fourth of every four; 7: all.
inline bool InPattern(uint8_t pattern, uint32_t lane) {
  switch (pattern) {
    case 1:
    case 2:
      return lane % 2 == pattern - 1u;
    case 3:
    case 4:
    case 5:
    case 6:
      return lane % 4 == pattern - 3u;
    default:
      return pattern == 7;
  }
}

template <typename T, typename Chosen>
void GatherLanes(const LocalTensor<T>& dst, const LocalTensor<T>& src0, bool reduceMode, uint32_t mask,
                 const GatherMaskParams& p, uint64_t& kept, Chosen chosen) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "E-30: GatherMask takes elements of two and four bytes");
  CheckLaneOperand(src0);
  const uint32_t lanes = reduceMode ? mask : kLanesPerRepeat<T>;
  std::vector<T> found;
  std::vector<bool> defined;
  for (uint32_t r = 0; r < p.repeatTimes; ++r) {
    // In reduce mode a repeat may be longer than 256 bytes.
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      if (!chosen(r, lane)) {
        continue;
      }
      const uint64_t block = lane / kLanesPerBlock<T>;
      const uint64_t at = 32 * (static_cast<uint64_t>(r) * p.src0RepeatStride + block * p.src0BlockStride) +
                          lane % kLanesPerBlock<T> * sizeof(T);
      auto& core = twin::Core::Current();
      T value;
      std::memcpy(&value, core.UbRead(src0.Range(), at, sizeof(T), sizeof(T)), sizeof(T));
      found.push_back(value);
      defined.push_back(core.Defined(src0.Range(), at, sizeof(T)));
    }
  }
  CheckLaneOperand(dst);
  for (std::size_t i = 0; i < found.size(); ++i) {
    StoreBytes(dst, i * sizeof(T), &found[i], sizeof(T), defined[i]);
  }
  kept = found.size();
  // The count is a scalar: the call waits for it.
  twin::Core::Current().KnowFinished(PIPE_S, PIPE_V);
}

}  // namespace twin_detail

template <typename T, typename U>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern,
                const bool reduceMode, const uint32_t mask, const GatherMaskParams& params, uint64_t& rsvdCnt) {
  static_assert(sizeof(T) == sizeof(U) && std::is_unsigned<U>::value,
                "E-30: the pattern of GatherMask is uint16_t for elements of two bytes, uint32_t for four");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "GatherMask");
  twin_detail::GatherLanes(dst, src0, reduceMode, mask, params, rsvdCnt, [&](uint32_t repeat, uint32_t lane) {
    const uint64_t at = 32ull * repeat * params.src1RepeatStride + lane / 8;
    core.RequireDefined(src1Pattern.Range(), at, 1);
    return ((*core.UbRead(src1Pattern.Range(), at, 1, 1) >> (lane % 8)) & 1u) != 0;
  });
}

template <typename T>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern, const bool reduceMode,
                const uint32_t mask, const GatherMaskParams& params, uint64_t& rsvdCnt) {
  if (src1Pattern < 1 || src1Pattern > 7) {
    twin::Core::Current().Trap("E-25", "GatherMask has patterns 1 to 7, not %u", src1Pattern);
  }
  twin::Core::Current().Issue(PIPE_V, "GatherMask");
  twin_detail::GatherLanes(dst, src0, reduceMode, mask, params, rsvdCnt, [src1Pattern](uint32_t, uint32_t lane) {
    return twin_detail::InPattern(src1Pattern, lane);
  });
}

}  // namespace AscendC
