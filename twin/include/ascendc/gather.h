// Gather and Gatherb: elements, and blocks, of one tensor in the unified buffer, chosen by byte offsets.
#pragma once
#include "ascendc/lanes.h"

namespace AscendC {

struct GatherRepeatParams {
  GatherRepeatParams() = default;
  GatherRepeatParams(uint16_t blockStride, uint16_t repeatStride)
      : dstBlkStride(blockStride), dstRepStride(repeatStride) {}
  uint16_t dstBlkStride = 1;
  uint16_t dstRepStride = 8;
};

template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseOffset, const uint32_t count) {
  static_assert(kOneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                "E-30: Gather does not take this type");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Gather");
  if (count == 0) {
    return;
  }
  twin_detail::CheckApart("the destination of Gather", dst, count * sizeof(T), src, src.Range().bytes);
  twin_detail::CheckApart("the destination of Gather", dst, count * sizeof(T), srcOffset, count * sizeof(uint32_t));
  core.RequireDefined(srcOffset.Range(), 0, count * sizeof(uint32_t));
  const auto* offsets = reinterpret_cast<const uint32_t*>(core.UbRead(srcOffset.Range(), 0, count * sizeof(uint32_t)));
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), 0, count * sizeof(T)));
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t at = static_cast<uint64_t>(srcBaseOffset) + offsets[i];
    if (at % sizeof(T) != 0) {
      core.Trap("E-01", "offset %llu of Gather is not a multiple of the element", static_cast<unsigned long long>(at));
    }
    std::memcpy(to + i, core.UbRead(src.Range(), at, sizeof(T), sizeof(T)), sizeof(T));
    core.Defined(src.Range(), at, sizeof(T)) ? core.Define(dst.Range(), i * sizeof(T), sizeof(T))
                                             : core.Undefine(dst.Range(), i * sizeof(T), sizeof(T));
  }
}

// Eight blocks of 32 bytes a repeat.
template <typename T>
void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& offset,
             const uint8_t repeatTime, const GatherRepeatParams& params) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "E-30: Gatherb takes elements of two and four bytes");
  constexpr uint32_t blocks = 8;
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Gatherb");
  twin_detail::CheckStride(params.dstBlkStride);
  if (repeatTime == 0) {
    return;
  }
  const uint64_t places = static_cast<uint64_t>(repeatTime) * blocks;
  const uint64_t reach = ((repeatTime - 1ull) * params.dstRepStride + (blocks - 1ull) * params.dstBlkStride + 1) * 32;
  twin_detail::CheckApart("the destination of Gatherb", dst, reach, src0, src0.Range().bytes);
  twin_detail::CheckApart("the destination of Gatherb", dst, reach, offset, places * sizeof(uint32_t));
  core.RequireDefined(offset.Range(), 0, places * sizeof(uint32_t));
  const auto* offsets = reinterpret_cast<const uint32_t*>(core.UbRead(offset.Range(), 0, places * sizeof(uint32_t)));
  for (uint64_t i = 0; i < places; ++i) {
    const uint64_t from = offsets[i];
    const uint64_t to = (i / blocks * params.dstRepStride + i % blocks * params.dstBlkStride) * twin::kUbBlock;
    if (from % twin::kUbBlock != 0) {
      core.Trap("E-01", "offset %llu of Gatherb is not a multiple of 32", static_cast<unsigned long long>(from));
    }
    std::memcpy(core.UbWrite(dst.Range(), to, twin::kUbBlock), core.UbRead(src0.Range(), from, twin::kUbBlock),
                twin::kUbBlock);
    for (uint64_t at = 0; at < twin::kUbBlock; at += sizeof(T)) {
      core.Defined(src0.Range(), from + at, sizeof(T)) ? core.Define(dst.Range(), to + at, sizeof(T))
                                                       : core.Undefine(dst.Range(), to + at, sizeof(T));
    }
  }
}

}  // namespace AscendC
