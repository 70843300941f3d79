// Gather: elements of one tensor in the unified buffer, chosen by byte offsets.
#pragma once
#include "ascendc/tensor.h"

namespace AscendC {

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
  const auto apart = [&](uint64_t start, uint64_t bytes) {
    return start + bytes <= dst.GetPhyAddr() || dst.GetPhyAddr() + count * sizeof(T) <= start;
  };
  if (!apart(src.GetPhyAddr(), src.Range().bytes) || !apart(srcOffset.GetPhyAddr(), count * sizeof(uint32_t))) {
    core.Trap("E-27", "the destination of Gather at UB 0x%llx overlaps a source",
              static_cast<unsigned long long>(dst.GetPhyAddr()));
  }
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

}  // namespace AscendC
