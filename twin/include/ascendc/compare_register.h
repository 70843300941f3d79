// The register of comparisons: Compare into it, GetCmpMask and SetCmpMask, and the Selects that read it.
#pragma once
#include "ascendc/select.h"

namespace AscendC {
namespace twin_detail {

constexpr uint32_t kComparedBytes = 16;     // of the register
constexpr uint64_t kGetCmpMaskBytes = 128;  // what GetCmpMask wants of its destination

inline bool Bit(const uint64_t (&words)[2], uint64_t lane) { return ((words[lane / 64] >> (lane % 64)) & 1u) != 0; }

inline void SetBit(uint64_t (&words)[2], uint64_t lane, bool on) {
  const uint64_t bit = 1ull << (lane % 64);
  words[lane / 64] = on ? words[lane / 64] | bit : words[lane / 64] & ~bit;
}

// One repeat. Lanes that the mask leaves out keep their bits.
template <typename T, typename Mask>
void CompareToRegister(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, Mask mask, bool setsMask,
                       const BinaryRepeatParams& params) {
  static_assert(kOneOf<T, half, float>, "E-30: comparisons into the register take half and float");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Compare");
  const Lanes work(mask, 1, kLanesPerRepeat<T>, setsMask);
  if (work.Repeats() > 1) {
    core.Trap("E-26", "Compare into the register is of one repeat, the counter asks for %u", work.Repeats());
  }
  const Operand<T> left(src0, params.src0BlkStride, params.src0RepStride);
  const Operand<T> right(src1, params.src1BlkStride, params.src1RepStride);
  const LaneBlocks leftBlocks = left.Blocks(0), rightBlocks = right.Blocks(0);
  auto& registers = core.Mask();
  const LaneMask on = work.On(0);
  for (uint32_t lane = 0; lane < work.PerRepeat() && work.Repeats() == 1; ++lane) {
    if (on.On(lane)) {
      bool defined = true;
      const T a = LoadLane(left, leftBlocks, lane, defined), b = LoadLane(right, rightBlocks, lane, defined);
      SetBit(registers.compared, lane, Holds(a, b, mode));
      SetBit(registers.comparedDefined, lane, defined);
    }
  }
}

// dst = f(bit, sources...) on the lanes of the mask's register; `bit(repeat, lane, defined)` is the selecting one.
template <typename T, typename F, typename B, typename... S>
void SelectByBits(const LocalTensor<T>& dst, uint8_t repeatTime, const BinaryRepeatParams& params, F f, B bit,
                  const Operand<S>&... sources) {
  static_assert(kOneOf<T, half, float>, "E-30: Select does not take this type");
  const Lanes work(MASK_PLACEHOLDER, repeatTime, kLanesPerRepeat<T>, false);
  CheckStride(params.dstBlkStride);
  const Operand<T> target(dst, params.dstBlkStride, params.dstRepStride);
  (CheckBlocks<T, S>(work, target, sources), ...);
  for (uint32_t r = 0; r < work.Repeats(); ++r) {
    const LaneMask on = work.On(r);
    LaneValues<T> results;
    const auto select = [&](const LaneValues<S>&... values) {
      for (uint32_t lane = 0; lane < work.PerRepeat(); ++lane) {
        if (on.On(lane)) {
          results.defined[lane] = (values.Defined(lane) && ...);
          const bool first = bit(r, lane, results.defined[lane]);
          results.allDefined = results.allDefined && results.defined[lane];
          results.of[lane] = f(first, values.of[lane]...);
        }
      }
    };
    select(ReadLanes(sources, r, on, work.PerRepeat())...);
    WriteLanes(target, r, on, work.PerRepeat(), results);
  }
}

// Bits that lie in the unified buffer, those of one repeat behind the other's.
template <typename T>
auto BitsInBuffer(const twin::UbRange& range) {
  if (range.address % twin::kUbBlock != 0) {
    twin::Core::Current().Trap("E-01", "the bits of Select, at UB 0x%x, are not aligned to 32 bytes", range.address);
  }
  return [&range](uint32_t repeat, uint32_t lane, bool& defined) {
    auto& core = twin::Core::Current();
    const uint64_t at = static_cast<uint64_t>(repeat) * kLanesPerRepeat<T> + lane;
    defined = defined && core.Defined(range, at / 8, 1);
    return ((*core.UbRead(range, at / 8, 1, 1) >> (at % 8)) & 1u) != 0;
  };
}

}  // namespace twin_detail

#define TWIN_COMPARE(MASK)                                                                 \
  template <typename T, bool isSetMask = true>                                             \
  void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, MASK, \
               const BinaryRepeatParams& params) {                                         \
    twin_detail::CompareToRegister(src0, src1, mode, mask, isSetMask, params);             \
  }
TWIN_COMPARE(const uint64_t mask)
TWIN_COMPARE(const uint64_t mask[])
#undef TWIN_COMPARE

// The register's 16 bytes; the destination has at least 128, and what is behind the 16 is not to be relied on.
template <typename T>
void GetCmpMask(const LocalTensor<T>& dst) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "GetCmpMask");
  if (dst.Range().bytes < twin_detail::kGetCmpMaskBytes) {
    core.Trap("E-25", "GetCmpMask into a tensor of %u bytes, it takes %llu", dst.Range().bytes,
              static_cast<unsigned long long>(twin_detail::kGetCmpMaskBytes));
  }
  auto* to = core.UbWrite(dst.Range(), 0, twin_detail::kGetCmpMaskBytes, twin_detail::kComparedBytes);
  const auto& registers = core.Mask();
  std::memcpy(to, registers.compared, twin_detail::kComparedBytes);
  core.Undefine(dst.Range(), 0, twin_detail::kGetCmpMaskBytes);
  for (uint32_t byte = 0; byte < twin_detail::kComparedBytes; ++byte) {
    if (((registers.comparedDefined[byte / 8] >> (byte % 8 * 8)) & 0xffu) != 0) {
      core.Define(dst.Range(), byte, 1);
    }
  }
}

// What it holds is up to the Select: its bits, a scalar, or the address of its bits in the unified buffer.
template <typename T>
void SetCmpMask(const LocalTensor<T>& src) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "SetCmpMask");
  auto& registers = core.Mask();
  std::memcpy(registers.compared, core.UbRead(src.Range(), 0, twin_detail::kComparedBytes, twin_detail::kComparedBytes),
              twin_detail::kComparedBytes);
  for (uint64_t bit = 0; bit < twin_detail::kComparedBytes * 8; ++bit) {
    twin_detail::SetBit(registers.comparedDefined, bit, core.Defined(src.Range(), bit / 8, 1));
  }
}

template <typename T, SELMODE selMode>
void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint8_t repeatTime,
            const BinaryRepeatParams& params) {
  static_assert(selMode != SELMODE::VSEL_TENSOR_SCALAR_MODE, "Select of a tensor and a scalar takes its bits");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Select");
  const auto choose = [](bool first, T x, T y) { return first ? x : y; };
  const twin_detail::Operand<T> left(src0, params.src0BlkStride, params.src0RepStride);
  const twin_detail::Operand<T> right(src1, params.src1BlkStride, params.src1RepStride);
  const auto& registers = core.Mask();
  if constexpr (selMode == SELMODE::VSEL_CMPMASK_SPR) {
    const auto bit = [&registers](uint32_t, uint32_t lane, bool& defined) {
      defined = defined && twin_detail::Bit(registers.comparedDefined, lane);
      return twin_detail::Bit(registers.compared, lane);
    };
    twin_detail::SelectByBits(dst, repeatTime, params, choose, bit, left, right);
  } else {
    core.UseSelectScratch();
    if (static_cast<uint32_t>(registers.comparedDefined[0]) != ~0u) {
      core.Trap("E-16", "Select: the register holds no address, SetCmpMask was not called with one");
    }
    const auto bits = core.UbAt(static_cast<uint32_t>(registers.compared[0]), "the bits of Select");
    twin_detail::SelectByBits(dst, repeatTime, params, choose, twin_detail::BitsInBuffer<T>(bits), left, right);
  }
}

// Of a tensor and the scalar that SetCmpMask has put into the register.
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, uint8_t repeatTime,
            const BinaryRepeatParams& params) {
  twin_detail::CheckSelect<T, U>(SELMODE::VSEL_TENSOR_SCALAR_MODE, true);
  const auto& registers = twin::Core::Current().Mask();
  T scalar;
  std::memcpy(&scalar, registers.compared, sizeof(T));
  const auto all = sizeof(T) == 4 ? ~0u : 0xffffu;
  const bool scalarDefined = (static_cast<uint32_t>(registers.comparedDefined[0]) & all) == all;
  const auto& range = selMask.Range();
  const auto bit = twin_detail::BitsInBuffer<T>(range);
  twin_detail::SelectByBits(
      dst, repeatTime, params, [scalar](bool first, T x) { return first ? x : scalar; },
      [&](uint32_t r, uint32_t lane, bool& defined) {
        const bool first = bit(r, lane, defined);
        defined = defined && (first || scalarDefined);
        return first;
      },
      twin_detail::Operand<T>(src0, params.src0BlkStride, params.src0RepStride));
}

}  // namespace AscendC
