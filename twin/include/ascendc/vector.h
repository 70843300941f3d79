// Elementwise vector instructions on PIPE_V. Each has three forms: a count, a mask of leading lanes, a mask by bits.
#pragma once
#include "ascendc/bulk.h"
#include "ascendc/elementwise.h"

namespace AscendC {
namespace twin_detail {

struct AbsOp {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(std::fabs(static_cast<float>(x)));
  }
};
struct LnOp {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(std::log(static_cast<float>(x)));
  }
};
struct SqrtOp {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(std::sqrt(static_cast<float>(x)));
  }
};
// Exact here; hardware's are approximations.
struct RsqrtOp {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(1.0f / std::sqrt(static_cast<float>(x)));
  }
};
struct ReciprocalOp {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(1.0f / static_cast<float>(x));
  }
};
struct ReluOp {
  template <typename T>
  T operator()(T x) const {
    return x > T(0) ? x : T(0);
  }
};
struct NotOp {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(~x);
  }
};
struct ExpOp {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_same<T, float>::value) {
      float result;
      twin::ExpFloats(&x, &result, 1);
      return result;
    } else {
      return static_cast<T>(std::exp(static_cast<float>(x)));
    }
  }
};
struct LeakyReluOp {
  template <typename T>
  T operator()(T x, T slope) const {
    return x >= T(0) ? x : static_cast<T>(x * slope);
  }
};
struct ShiftLeftOp {
  template <typename T>
  T operator()(T x, T bits) const {
    return static_cast<uint64_t>(bits) >= sizeof(T) * 8 ? T(0) : static_cast<T>(static_cast<uint64_t>(x) << bits);
  }
};
struct ShiftRightOp {
  template <typename T>
  T operator()(T x, T bits) const {
    constexpr uint64_t width = sizeof(T) * 8;
    const uint64_t by = static_cast<uint64_t>(bits) >= width ? width - 1 : static_cast<uint64_t>(bits);
    const T once = static_cast<T>(x >> by);
    return by == static_cast<uint64_t>(bits) ? once : static_cast<T>(once >> 1);
  }
};
// With rounding, half of the last place is added before the shift.
struct RoundShiftRightOp {
  template <typename T>
  T operator()(T x, T bits) const {
    const auto by = static_cast<uint64_t>(bits);
    const int64_t wide = static_cast<int64_t>(x);
    return by == 0 ? x : static_cast<T>((wide + (int64_t{1} << (by - 1))) >> by);
  }
};

template <typename T>
inline constexpr bool kShifted = kOneOf<T, int16_t, uint16_t, int32_t, uint32_t>;
template <typename T>
inline constexpr bool kRectified = kOneOf<T, half, int32_t, float>;

template <typename T>
void CheckShift(T bits) {
  if (static_cast<int64_t>(bits) < 0 || static_cast<uint64_t>(bits) > sizeof(T) * 8) {
    twin::Core::Current().Trap("E-25", "a shift by %lld bits of an element of %zu", static_cast<long long>(bits),
                               sizeof(T) * 8);
  }
}

template <typename T, typename M, typename F>
void UnaryLanes(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, M mask, int64_t repeatTime,
                const UnaryRepeatParams& p, bool setsMask, F f) {
  twin::Core::Current().Issue(PIPE_V, name);
  const Lanes work(mask, repeatTime, kLanesPerRepeat<T>, setsMask);
  OverLanes(work, Operand<T>(dst, p.dstBlkStride, p.dstRepStride), f, Operand<T>(src, p.srcBlkStride, p.srcRepStride));
}

template <typename T, typename M, typename F>
void BinaryLanes(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                 M mask, int64_t repeatTime, const BinaryRepeatParams& p, bool setsMask, F f) {
  twin::Core::Current().Issue(PIPE_V, name);
  const Lanes work(mask, repeatTime, kLanesPerRepeat<T>, setsMask);
  // One line of sums over all repeats: the destination is read again on purpose.
  const bool chained = dst.GetPhyAddr() == src1.GetPhyAddr() && p.dstRepStride == 0 && p.src1RepStride == 0;
  OverLanes(work, Operand<T>(dst, p.dstBlkStride, p.dstRepStride), f,
            Operand<T>(src0, p.src0BlkStride, p.src0RepStride),
            Operand<T>(src1, p.src1BlkStride, p.src1RepStride, chained));
}

}  // namespace twin_detail

#define TWIN_BINARY(NAME, OP, TYPES)                                                                                   \
  template <typename T>                                                                                                \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const int32_t& count) { \
    static_assert(twin_detail::TYPES<T>, "E-30: " #NAME " does not take this type");                                   \
    twin_detail::Binary(#NAME, dst, src0, src1, count, twin_detail::OP{});                                             \
  }                                                                                                                    \
  template <typename T, bool isSetMask = true>                                                                         \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask,          \
            const int64_t repeatTime, const BinaryRepeatParams& params) {                                              \
    static_assert(twin_detail::TYPES<T>, "E-30: " #NAME " does not take this type");                                   \
    twin_detail::BinaryLanes(#NAME, dst, src0, src1, mask, repeatTime, params, isSetMask, twin_detail::OP{});          \
  }                                                                                                                    \
  template <typename T, bool isSetMask = true>                                                                         \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const uint64_t mask[],  \
            const int64_t repeatTime, const BinaryRepeatParams& params) {                                              \
    static_assert(twin_detail::TYPES<T>, "E-30: " #NAME " does not take this type");                                   \
    twin_detail::BinaryLanes(#NAME, dst, src0, src1, mask, repeatTime, params, isSetMask, twin_detail::OP{});          \
  }
TWIN_BINARY(Add, AddOp, kArithmetic)
TWIN_BINARY(Sub, SubOp, kArithmetic)
TWIN_BINARY(Mul, MulOp, kArithmetic)
TWIN_BINARY(Max, MaxOp, kArithmetic)
TWIN_BINARY(Min, MinOp, kArithmetic)
TWIN_BINARY(Div, DivOp, kFloating)
TWIN_BINARY(And, AndOp, kBitwise)
TWIN_BINARY(Or, OrOp, kBitwise)
#undef TWIN_BINARY

#define TWIN_SCALAR(NAME, OP, TYPES)                                                                       \
  template <typename T>                                                                                    \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, const int32_t& count) { \
    static_assert(twin_detail::TYPES<T>, "E-30: " #NAME " does not take this type");                       \
    twin_detail::Unary(#NAME, dst, src, count, [scalar](T x) { return twin_detail::OP{}(x, scalar); });    \
  }                                                                                                        \
  template <typename T, bool isSetMask = true>                                                             \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, uint64_t mask,          \
            const int64_t repeatTime, const UnaryRepeatParams& params) {                                   \
    static_assert(twin_detail::TYPES<T>, "E-30: " #NAME " does not take this type");                       \
    twin_detail::UnaryLanes(#NAME, dst, src, mask, repeatTime, params, isSetMask,                          \
                            [scalar](T x) { return twin_detail::OP{}(x, scalar); });                       \
  }                                                                                                        \
  template <typename T, bool isSetMask = true>                                                             \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, const uint64_t mask[],  \
            const int64_t repeatTime, const UnaryRepeatParams& params) {                                   \
    static_assert(twin_detail::TYPES<T>, "E-30: " #NAME " does not take this type");                       \
    twin_detail::UnaryLanes(#NAME, dst, src, mask, repeatTime, params, isSetMask,                          \
                            [scalar](T x) { return twin_detail::OP{}(x, scalar); });                       \
  }
TWIN_SCALAR(Adds, AddOp, kArithmetic)
TWIN_SCALAR(Muls, MulOp, kArithmetic)
TWIN_SCALAR(Maxs, MaxOp, kArithmetic)
TWIN_SCALAR(Mins, MinOp, kArithmetic)
TWIN_SCALAR(LeakyRelu, LeakyReluOp, kFloating)
#undef TWIN_SCALAR

#define TWIN_UNARY_LANES(NAME, OP, TYPES, MASK)                                                       \
  template <typename T, bool isSetMask = true>                                                        \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, MASK, const int64_t repeatTime,     \
            const UnaryRepeatParams& params) {                                                        \
    static_assert(twin_detail::TYPES<T>, "E-30: " #NAME " does not take this type");                  \
    twin_detail::UnaryLanes(#NAME, dst, src, mask, repeatTime, params, isSetMask, twin_detail::OP{}); \
  }
#define TWIN_UNARY_MASKS(NAME, OP, TYPES)          \
  TWIN_UNARY_LANES(NAME, OP, TYPES, uint64_t mask) \
  TWIN_UNARY_LANES(NAME, OP, TYPES, const uint64_t mask[])
#define TWIN_UNARY(NAME, OP, TYPES)                                                       \
  template <typename T>                                                                   \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) { \
    static_assert(twin_detail::TYPES<T>, "E-30: " #NAME " does not take this type");      \
    twin_detail::Unary(#NAME, dst, src, count, twin_detail::OP{});                        \
  }                                                                                       \
  TWIN_UNARY_MASKS(NAME, OP, TYPES)
TWIN_UNARY(Abs, AbsOp, kFloating)
TWIN_UNARY(Ln, LnOp, kFloating)
TWIN_UNARY(Sqrt, SqrtOp, kFloating)
TWIN_UNARY(Rsqrt, RsqrtOp, kFloating)
TWIN_UNARY(Reciprocal, ReciprocalOp, kFloating)
TWIN_UNARY(Relu, ReluOp, kRectified)
TWIN_UNARY(Not, NotOp, kBitwise)
TWIN_UNARY_MASKS(Exp, ExpOp, kFloating)
#undef TWIN_UNARY
#undef TWIN_UNARY_MASKS
#undef TWIN_UNARY_LANES

template <typename T>
void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {
  static_assert(twin_detail::kFloating<T>, "E-30: Exp does not take this type");
  if constexpr (std::is_same<T, float>::value) {
    twin_detail::UnaryLoop("Exp", dst, src, count, twin::ExpFloats);
  } else {
    twin_detail::Unary("Exp", dst, src, count, twin_detail::ExpOp{});
  }
}

template <typename T>
void ShiftLeft(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, const int32_t& count) {
  static_assert(twin_detail::kShifted<T>, "E-30: ShiftLeft does not take this type");
  twin_detail::CheckShift(scalar);
  twin_detail::Unary("ShiftLeft", dst, src, count, [scalar](T x) { return twin_detail::ShiftLeftOp{}(x, scalar); });
}

template <typename T>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, const int32_t& count) {
  static_assert(twin_detail::kShifted<T>, "E-30: ShiftRight does not take this type");
  twin_detail::CheckShift(scalar);
  twin_detail::Unary("ShiftRight", dst, src, count, [scalar](T x) { return twin_detail::ShiftRightOp{}(x, scalar); });
}

#define TWIN_SHIFT(MASK)                                                                                          \
  template <typename T, bool isSetMask = true>                                                                    \
  void ShiftLeft(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, MASK,                     \
                 const int64_t repeatTime, const UnaryRepeatParams& params) {                                     \
    static_assert(twin_detail::kShifted<T>, "E-30: ShiftLeft does not take this type");                           \
    twin_detail::CheckShift(scalar);                                                                              \
    twin_detail::UnaryLanes("ShiftLeft", dst, src, mask, repeatTime, params, isSetMask,                           \
                            [scalar](T x) { return twin_detail::ShiftLeftOp{}(x, scalar); });                     \
  }                                                                                                               \
  template <typename T, bool isSetMask = true>                                                                    \
  void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, MASK,                    \
                  const int64_t repeatTime, const UnaryRepeatParams& params, bool roundEn = false) {              \
    static_assert(twin_detail::kShifted<T>, "E-30: ShiftRight does not take this type");                          \
    twin_detail::CheckShift(scalar);                                                                              \
    twin_detail::UnaryLanes("ShiftRight", dst, src, mask, repeatTime, params, isSetMask, [scalar, roundEn](T x) { \
      return roundEn ? twin_detail::RoundShiftRightOp{}(x, scalar) : twin_detail::ShiftRightOp{}(x, scalar);      \
    });                                                                                                           \
  }
TWIN_SHIFT(uint64_t mask)
TWIN_SHIFT(const uint64_t mask[])
#undef TWIN_SHIFT

}  // namespace AscendC
