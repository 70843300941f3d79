// Comparisons to bits and selection by bits: of a count of elements, and of repeats.
#pragma once
#include <vector>

#include "ascendc/lanes.h"

namespace AscendC {

enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };

namespace twin_detail {

template <typename T>
bool Holds(T a, T b, CMPMODE mode) {
  switch (mode) {
    case CMPMODE::LT:
      return a < b;
    case CMPMODE::GT:
      return a > b;
    case CMPMODE::EQ:
      return a == b;
    case CMPMODE::LE:
      return a <= b;
    case CMPMODE::GE:
      return a >= b;
    default:
      return a != b;
  }
}

template <typename T>
void CheckWholeRepeats(uint32_t count) {
  if (count * sizeof(T) % 256 != 0) {
    twin::Core::Current().Trap("E-26", "%u elements of %zu bytes are no whole repeats of 256 bytes", count, sizeof(T));
  }
}

// A byte of bits counts as defined where one of its eight lanes is: the last lanes of a tail are not told apart.
template <typename T, typename U>
void DefineBits(const LocalTensor<U>& dst, const LocalTensor<T>& src, uint32_t count) {
  auto& core = twin::Core::Current();
  if (core.Defined(src.Range(), 0, count * sizeof(T))) {
    core.Define(dst.Range(), 0, count / 8);
    return;
  }
  for (uint32_t byte = 0; byte < count / 8; ++byte) {
    bool any = false;
    for (uint32_t lane = byte * 8; lane < byte * 8 + 8; ++lane) {
      any = any || core.Defined(src.Range(), lane * sizeof(T), sizeof(T));
    }
    any ? core.Define(dst.Range(), byte, 1) : core.Undefine(dst.Range(), byte, 1);
  }
}

template <typename T, typename U, typename F>
void CompareBits(const LocalTensor<U>& dst, const LocalTensor<T>& src0, uint32_t count, CMPMODE mode, F right) {
  static_assert(kOneOf<U, uint8_t, int8_t>, "E-30: comparisons write bits into bytes");
  static_assert(kOneOf<T, half, float, int32_t>, "E-30: comparisons do not take this type");
  auto& core = twin::Core::Current();
  if (std::is_same<T, int32_t>::value && mode != CMPMODE::EQ) {
    core.Trap("E-30", "int32_t is compared for equality only");
  }
  CheckWholeRepeats<T>(count);
  if (count == 0) {
    return;
  }
  const auto* left = reinterpret_cast<const T*>(core.UbRead(src0.Range(), 0, count * sizeof(T)));
  auto* bits = core.UbWrite(dst.Range(), 0, count / 8);
  for (uint32_t i = 0; i < count; i += 8) {
    unsigned byte = 0;
    for (uint32_t lane = 0; lane < 8; ++lane) {
      byte |= static_cast<unsigned>(Holds(left[i + lane], right(i + lane), mode)) << lane;
    }
    bits[i / 8] = static_cast<uint8_t>(byte);
  }
  DefineBits(dst, src0, count);
}

// Lane i of the mask: its bit i, or (VSEL_CMPMASK_SPR) the same bits in every repeat.
template <typename T>
uint64_t MaskBit(SELMODE mode, uint64_t element) {
  return mode == SELMODE::VSEL_CMPMASK_SPR ? element % kLanesPerRepeat<T> : element;
}

template <typename T, typename U>
void CheckSelect(SELMODE mode, bool scalar) {
  static_assert(kOneOf<T, half, float>, "E-30: Select does not take this type");
  static_assert(kOneOf<U, int8_t, uint8_t, uint16_t, uint32_t, uint64_t>,
                "E-30: Select does not take this type of mask");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Select");
  if (scalar != (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE)) {
    core.Trap("E-26", scalar ? "Select of a tensor and a scalar: VSEL_TENSOR_SCALAR_MODE"
                             : "Select of two tensors: VSEL_TENSOR_TENSOR_MODE or VSEL_CMPMASK_SPR");
  }
  if (mode != SELMODE::VSEL_CMPMASK_SPR) {
    core.UseSelectScratch();
  }
}

// Of any count: what is chosen for the lanes behind it is not written. Comparisons alone take whole repeats.
template <typename T, typename U, typename F, typename D>
void SelectBits(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, SELMODE mode,
                uint32_t count, F right, D rightDefined) {
  auto& core = twin::Core::Current();
  if (count == 0) {
    return;
  }
  const uint64_t bytes = (MaskBit<T>(mode, count - 1) + 8) / 8;
  const auto* bits = core.UbRead(selMask.Range(), 0, bytes);
  const auto* left = reinterpret_cast<const T*>(core.UbRead(src0.Range(), 0, count * sizeof(T)));
  const bool allDefined = rightDefined(0, count) && core.Defined(src0.Range(), 0, count * sizeof(T)) &&
                          core.Defined(selMask.Range(), 0, bytes);
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), 0, count * sizeof(T)));
  if (allDefined) {
    core.Define(dst.Range(), 0, count * sizeof(T));
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t bit = MaskBit<T>(mode, i);
    const bool first = ((bits[bit / 8] >> (bit % 8)) & 1u) != 0;
    if (!allDefined) {
      const bool defined = core.Defined(selMask.Range(), bit / 8, 1) &&
                           (first ? core.Defined(src0.Range(), i * sizeof(T), sizeof(T)) : rightDefined(i, 1));
      defined ? core.Define(dst.Range(), i * sizeof(T), sizeof(T))
              : core.Undefine(dst.Range(), i * sizeof(T), sizeof(T));
    }
    to[i] = first ? left[i] : right(i);
  }
}

// The bits of one repeat after the other; the instruction's mask says which lanes of dst are written at all.
template <typename T, typename U, typename F, typename... S>
void SelectLanes(const LocalTensor<U>& selMask, SELMODE mode, const Lanes& work, const Operand<T>& dst, F f,
                 const Operand<S>&... sources) {
  auto& core = twin::Core::Current();
  CheckStride(dst.blockStride);
  const uint64_t elements = static_cast<uint64_t>(work.Repeats()) * kLanesPerRepeat<T>;
  if (elements == 0) {
    return;
  }
  const uint64_t bytes = (MaskBit<T>(mode, elements - 1) + 8) / 8;
  const auto* from = core.UbRead(selMask.Range(), 0, bytes);
  core.RequireDefined(selMask.Range(), 0, bytes);
  const std::vector<uint8_t> bits(from, from + bytes);
  OverNumberedLanes(
      work, dst,
      [&](uint32_t r, uint32_t lane, const S&... values) {
        const uint64_t bit = MaskBit<T>(mode, static_cast<uint64_t>(r) * work.PerRepeat() + lane);
        return f(((bits[bit / 8] >> (bit % 8)) & 1u) != 0, values...);
      },
      sources...);
}

// Whole repeats are compared, whatever the mask; their bits lie side by side.
template <typename T, typename U, typename F, typename... S>
void CompareLanes(const LocalTensor<U>& dst, CMPMODE mode, int64_t repeatTime, F right, const Operand<T>& src0,
                  const Operand<S>&... others) {
  static_assert(kOneOf<U, uint8_t, int8_t>, "E-30: comparisons write bits into bytes");
  static_assert(kOneOf<T, half, float, int32_t>, "E-30: comparisons do not take this type");
  if (std::is_same<T, int32_t>::value && mode != CMPMODE::EQ) {
    twin::Core::Current().Trap("E-30", "int32_t is compared for equality only");
  }
  const auto& mask = twin::Core::Current().Mask();
  if (mask.counter) {
    repeatTime = static_cast<int64_t>((mask.low + kLanesPerRepeat<T> - 1) / kLanesPerRepeat<T>);
  } else {
    CheckRepeat(repeatTime);
  }
  CheckLaneOperand(dst);
  constexpr uint32_t bytes = kLanesPerRepeat<T> / 8;
  const LaneMask all{{~0ull, ~0ull}};
  for (uint32_t r = 0; r < static_cast<uint32_t>(repeatTime); ++r) {
    uint8_t bits[16] = {};
    bool defined = true;
    const auto compare = [&](const LaneValues<T>& left, const LaneValues<S>&... values) {
      for (uint32_t lane = 0; lane < kLanesPerRepeat<T>; ++lane) {
        defined = defined && left.Defined(lane) && (values.Defined(lane) && ...);
        const bool holds = Holds(left.of[lane], right(values.of[lane]...), mode);
        bits[lane / 8] = static_cast<uint8_t>(bits[lane / 8] | (holds ? 1u << (lane % 8) : 0u));
      }
    };
    compare(ReadLanes(src0, r, all, kLanesPerRepeat<T>), ReadLanes(others, r, all, kLanesPerRepeat<T>)...);
    auto& core = twin::Core::Current();
    std::memcpy(core.UbWrite(dst.Range(), static_cast<uint64_t>(r) * bytes, bytes, bytes), bits, bytes);
    defined ? core.Define(dst.Range(), static_cast<uint64_t>(r) * bytes, bytes)
            : core.Undefine(dst.Range(), static_cast<uint64_t>(r) * bytes, bytes);
  }
}

}  // namespace twin_detail

template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
             uint32_t count) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Compare");
  const auto* right = reinterpret_cast<const T*>(core.UbRead(src1.Range(), 0, count * sizeof(T)));
  twin_detail::CompareBits(dst, src0, count, mode, [right](uint32_t i) { return right[i]; });
}

template <typename T, typename U>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode,
                   uint32_t count) {
  twin::Core::Current().Issue(PIPE_V, "CompareScalar");
  twin_detail::CompareBits(dst, src0, count, mode, [scalar](uint32_t) { return scalar; });
}

template <typename T, typename U>
void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode, uint32_t count) {
  CompareScalar(dst, src0, scalar, mode, count);
}

#define TWIN_COMPARE(MASK)                                                                                            \
  template <typename T, typename U, bool isSetMask = true>                                                            \
  void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, MASK, \
               const int64_t repeatTime, const BinaryRepeatParams& params) {                                          \
    twin::Core::Current().Issue(PIPE_V, "Compare");                                                                   \
    twin_detail::CompareLanes(                                                                                        \
        dst, mode, repeatTime, [](T x) { return x; },                                                                 \
        twin_detail::Operand<T>(src0, params.src0BlkStride, params.src0RepStride),                                    \
        twin_detail::Operand<T>(src1, params.src1BlkStride, params.src1RepStride));                                   \
  }                                                                                                                   \
  template <typename T, typename U, bool isSetMask = true>                                                            \
  void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T scalar, CMPMODE mode, MASK,       \
                     const int64_t repeatTime, const UnaryRepeatParams& params) {                                     \
    twin::Core::Current().Issue(PIPE_V, "CompareScalar");                                                             \
    twin_detail::CompareLanes(                                                                                        \
        dst, mode, repeatTime, [scalar]() { return scalar; },                                                         \
        twin_detail::Operand<T>(src0, params.srcBlkStride, params.srcRepStride));                                     \
  }
TWIN_COMPARE(uint64_t)
TWIN_COMPARE(const uint64_t[])
#undef TWIN_COMPARE

template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE mode, uint32_t count) {
  auto& core = twin::Core::Current();
  twin_detail::CheckSelect<T, U>(mode, false);
  const auto* right = reinterpret_cast<const T*>(core.UbRead(src1.Range(), 0, count * sizeof(T)));
  twin_detail::SelectBits(
      dst, selMask, src0, mode, count, [right](uint32_t i) { return right[i]; },
      [&](uint32_t i, uint32_t lanes) { return core.Defined(src1.Range(), i * sizeof(T), lanes * sizeof(T)); });
}

template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const T src1,
            SELMODE mode, uint32_t count) {
  twin_detail::CheckSelect<T, U>(mode, true);
  twin_detail::SelectBits(
      dst, selMask, src0, mode, count, [src1](uint32_t) { return src1; }, [](uint32_t, uint32_t) { return true; });
}

#define TWIN_SELECT(MASK)                                                                                         \
  template <typename T, typename U, bool isSetMask = true>                                                        \
  void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,               \
              const LocalTensor<T>& src1, SELMODE mode, MASK, const int64_t repeatTime,                           \
              const BinaryRepeatParams& params) {                                                                 \
    twin_detail::CheckSelect<T, U>(mode, false);                                                                  \
    const twin_detail::Lanes work(mask, repeatTime, twin_detail::kLanesPerRepeat<T>, isSetMask);                  \
    twin_detail::SelectLanes(                                                                                     \
        selMask, mode, work, twin_detail::Operand<T>(dst, params.dstBlkStride, params.dstRepStride),              \
        [](bool first, T x, T y) { return first ? x : y; },                                                       \
        twin_detail::Operand<T>(src0, params.src0BlkStride, params.src0RepStride),                                \
        twin_detail::Operand<T>(src1, params.src1BlkStride, params.src1RepStride));                               \
  }                                                                                                               \
  template <typename T, typename U, bool isSetMask = true>                                                        \
  void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, const T src1, \
              SELMODE mode, MASK, const int64_t repeatTime, const BinaryRepeatParams& params) {                   \
    twin_detail::CheckSelect<T, U>(mode, true);                                                                   \
    const twin_detail::Lanes work(mask, repeatTime, twin_detail::kLanesPerRepeat<T>, isSetMask);                  \
    twin_detail::SelectLanes(                                                                                     \
        selMask, mode, work, twin_detail::Operand<T>(dst, params.dstBlkStride, params.dstRepStride),              \
        [src1](bool first, T x) { return first ? x : src1; },                                                     \
        twin_detail::Operand<T>(src0, params.src0BlkStride, params.src0RepStride));                               \
  }
TWIN_SELECT(uint64_t mask)
TWIN_SELECT(const uint64_t mask[])
#undef TWIN_SELECT

}  // namespace AscendC
