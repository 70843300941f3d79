// Conversions between types.
#pragma once
#include "ascendc/bulk.h"
#include "ascendc/elementwise.h"

namespace AscendC {
namespace twin_detail {

// The bits of a floating value in ascending order, and the neighbour of a value.
template <typename D>
using FloatBits = typename std::conditional<sizeof(D) == 4, uint32_t, uint16_t>::type;

template <typename D>
D Neighbour(D value, bool up) {
  FloatBits<D> bits;
  std::memcpy(&bits, &value, sizeof(D));
  constexpr auto sign = static_cast<FloatBits<D>>(FloatBits<D>(1) << (sizeof(D) * 8 - 1));
  if (static_cast<FloatBits<D>>(bits & ~sign) == 0) {
    bits = static_cast<FloatBits<D>>(up ? 1 : sign | 1);
  } else {
    bits = static_cast<FloatBits<D>>(((bits & sign) == 0) == up ? bits + 1 : bits - 1);
  }
  std::memcpy(&value, &bits, sizeof(D));
  return value;
}

inline long double Exact(bfloat16_t value) { return ToFloat(value); }
template <typename S>
long double Exact(S value) {
  return static_cast<long double>(value);
}

template <typename D>
bool OddBits(D value) {
  FloatBits<D> bits;
  std::memcpy(&bits, &value, sizeof(D));
  return (bits & 1u) != 0;
}

// The nearest value is known; the other modes take it or its neighbour on the other side of the exact one.
template <typename D>
D Directed(D nearest, long double exact, RoundMode mode) {
  const long double at = Exact(nearest);
  if (at == exact || !std::isfinite(static_cast<double>(exact))) {
    return nearest;
  }
  const D other = Neighbour(nearest, at < exact);
  const D low = at < exact ? nearest : other;
  const D high = at < exact ? other : nearest;
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return low;
    case RoundMode::CAST_CEIL:
      return high;
    case RoundMode::CAST_TRUNC:
      return exact > 0 ? low : high;
    case RoundMode::CAST_ODD:
      return OddBits(low) ? low : high;
    default: {
      const bool tie = exact - Exact(low) == Exact(high) - exact;
      return tie ? (exact > 0 ? high : low) : nearest;
    }
  }
}

template <typename S>
double ToIntegral(S value, RoundMode mode) {
  const auto x = static_cast<double>(value);
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return std::floor(x);
    case RoundMode::CAST_CEIL:
      return std::ceil(x);
    case RoundMode::CAST_ROUND:
      return std::round(x);
    case RoundMode::CAST_TRUNC:
      return std::trunc(x);
    default:
      return std::nearbyint(x);
  }
}

// One conversion of Cast's table.
template <typename D, typename S>
D Convert(S value, RoundMode mode) {
  if constexpr (std::is_same<S, bfloat16_t>::value) {
    return Convert<D, float>(ToFloat(value), mode);
  } else if constexpr (std::is_same<D, S>::value) {
    return static_cast<D>(ToIntegral(value, mode));
  } else if constexpr (std::is_same<D, half>::value && std::is_same<S, int32_t>::value) {
    return static_cast<D>(static_cast<float>(value) * twin::Core::Current().Mask().deqScale);
  } else if constexpr (!std::is_integral<D>::value) {
    const D nearest = static_cast<D>(value);
    const bool directed = mode != RoundMode::CAST_NONE && mode != RoundMode::CAST_RINT;
    return directed ? Directed(nearest, Exact(value), mode) : nearest;
  } else if constexpr (!std::is_integral<S>::value) {
    if (static_cast<double>(value) != static_cast<double>(value)) {
      return 0;
    }
    const double x = ToIntegral(value, mode);
    const auto lowest = static_cast<double>(std::numeric_limits<D>::lowest());
    const auto highest = static_cast<double>(std::numeric_limits<D>::max());
    return x <= lowest    ? std::numeric_limits<D>::lowest()
           : x >= highest ? std::numeric_limits<D>::max()
                          : static_cast<D>(x);
  } else if constexpr (sizeof(D) < sizeof(S)) {
    const S lowest = std::numeric_limits<D>::lowest();
    const S highest = std::numeric_limits<D>::max();
    return static_cast<D>(value < lowest ? lowest : value > highest ? highest : value);
  } else {
    return static_cast<D>(value);
  }
}

template <typename D, typename S>
void ConvertAll(const S* from, D* to, uint64_t count, RoundMode mode) {
  const bool nearest = mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT;
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
  auto* toBits = reinterpret_cast<uint16_t*>(to);
  const auto each = [&] {
    for (uint64_t i = 0; i < count; ++i) {
      to[i] = Convert<D, S>(from[i], mode);
    }
  };
  if constexpr (std::is_same<S, half>::value && std::is_same<D, float>::value) {
    twin::WidenHalf(bits, to, count);
  } else if constexpr (std::is_same<S, bfloat16_t>::value && std::is_same<D, float>::value) {
    twin::WidenBfloat16(bits, to, count);
  } else if constexpr (std::is_same<S, float>::value && std::is_same<D, half>::value) {
    nearest ? twin::NarrowHalf(from, toBits, count) : each();
  } else if constexpr (std::is_same<S, float>::value && std::is_same<D, bfloat16_t>::value) {
    nearest ? twin::NarrowBfloat16(from, toBits, count) : each();
  } else {
    each();
  }
}

template <typename D, typename S>
constexpr bool CastPair() {
  return (std::is_same<S, int8_t>::value && std::is_same<D, half>::value) ||
         (std::is_same<S, uint8_t>::value && std::is_same<D, half>::value) ||
         (std::is_same<S, int16_t>::value && kOneOf<D, half, float>) ||
         (std::is_same<S, int32_t>::value && kOneOf<D, float, int16_t, int64_t, half>) ||
         (std::is_same<S, int64_t>::value && kOneOf<D, int32_t, float>) ||
         (std::is_same<S, half>::value && kOneOf<D, float, int8_t, uint8_t, int16_t, int32_t>) ||
         (std::is_same<S, float>::value && kOneOf<D, half, bfloat16_t, int16_t, int32_t, int64_t, float>) ||
         (std::is_same<S, bfloat16_t>::value && kOneOf<D, float, int32_t>);
}

template <typename D, typename S>
constexpr bool CastMode(RoundMode mode) {
  const bool none = mode == RoundMode::CAST_NONE;
  const bool odd = mode == RoundMode::CAST_ODD;
  const bool exact = (std::is_same<D, float>::value && kOneOf<S, half, bfloat16_t, int16_t>) ||
                     (std::is_same<D, half>::value && kOneOf<S, int8_t, uint8_t>) ||
                     (std::is_same<D, half>::value && std::is_same<S, int32_t>::value) ||
                     (std::is_integral<D>::value && std::is_integral<S>::value);
  const bool takesOdd = std::is_same<D, half>::value && std::is_same<S, float>::value;
  const bool lossyNone = (std::is_same<S, int16_t>::value && std::is_same<D, half>::value) ||
                         (std::is_same<S, int32_t>::value && std::is_same<D, float>::value) ||
                         (std::is_same<S, half>::value && sizeof(D) == 1) ||
                         (std::is_same<S, float>::value && std::is_same<D, half>::value);
  return exact ? none : none ? lossyNone : !odd || takesOdd;
}

template <typename D, typename S>
void CheckCast(RoundMode mode) {
  static_assert(CastPair<D, S>(), "E-30: Cast does not convert this pair of types");
  if (!CastMode<D, S>(mode)) {
    twin::Core::Current().Trap("E-30", "Cast does not take round mode %d for this pair", static_cast<int>(mode));
  }
  if (std::is_same<D, half>::value && std::is_same<S, int32_t>::value && !(twin::Core::Current().Mask().deqScale > 0)) {
    twin::Core::Current().Trap("E-30", "Cast of int32_t to half needs SetDeqScale");
  }
}

template <typename D, typename S, typename M>
void CastLanes(const LocalTensor<D>& dst, const LocalTensor<S>& src, RoundMode mode, M mask, int64_t repeatTime,
               const UnaryRepeatParams& p, bool setsMask) {
  CheckCast<D, S>(mode);
  twin::Core::Current().Issue(PIPE_V, "Cast");
  // Lanes are those of the wider type.
  const Lanes work(mask, repeatTime, 256 / (sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S)), setsMask);
  OverLanes(
      work, Operand<D>(dst, p.dstBlkStride, p.dstRepStride), [mode](S x) { return Convert<D, S>(x, mode); },
      Operand<S>(src, p.srcBlkStride, p.srcRepStride));
}

}  // namespace twin_detail

inline void SetDeqScale(half scale) { twin::Core::Current().Mask().deqScale = static_cast<float>(scale); }

template <typename D, typename S>
void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode, const uint32_t count) {
  twin_detail::CheckCast<D, S>(mode);
  twin_detail::UnaryLoop("Cast", dst, src, count,
                         [mode](const S* from, D* to, uint64_t n) { twin_detail::ConvertAll(from, to, n, mode); });
}

template <typename D, typename S, bool isSetMask = true>
void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode, const uint64_t mask,
          const int64_t repeatTime, const UnaryRepeatParams& params) {
  twin_detail::CastLanes(dst, src, mode, mask, repeatTime, params, isSetMask);
}

template <typename D, typename S, bool isSetMask = true>
void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode, const uint64_t mask[],
          const int64_t repeatTime, const UnaryRepeatParams& params) {
  twin_detail::CastLanes(dst, src, mode, mask, repeatTime, params, isSetMask);
}

}  // namespace AscendC
