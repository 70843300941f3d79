// Vector instructions on PIPE_V: fills, elementwise arithmetic and conversions.
#pragma once
#include "ascendc/bulk.h"
#include "ascendc/tensor.h"

namespace AscendC {

struct UnaryRepeatParams {
  UnaryRepeatParams() = default;
  UnaryRepeatParams(uint16_t dstBlk, uint16_t srcBlk, uint8_t dstRep, uint8_t srcRep, bool half = false)
      : dstBlkStride(dstBlk), srcBlkStride(srcBlk), dstRepStride(dstRep), srcRepStride(srcRep), halfBlock(half) {}
  uint16_t dstBlkStride = 1;
  uint16_t srcBlkStride = 1;
  uint8_t dstRepStride = 8;
  uint8_t srcRepStride = 8;
  bool halfBlock = false;
};

struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep, uint8_t src1Rep)
      : dstBlkStride(dstBlk),
        src0BlkStride(src0Blk),
        src1BlkStride(src1Blk),
        dstRepStride(dstRep),
        src0RepStride(src0Rep),
        src1RepStride(src1Rep) {}
  uint8_t dstBlkStride = 1;
  uint8_t src0BlkStride = 1;
  uint8_t src1BlkStride = 1;
  uint8_t dstRepStride = 8;
  uint8_t src0RepStride = 8;
  uint8_t src1RepStride = 8;
};

namespace twin_detail {

template <typename T>
inline constexpr uint32_t kLanesPerRepeat = 256 / sizeof(T);
template <typename T>
inline constexpr uint32_t kLanesPerBlock = 32 / sizeof(T);
template <typename T>
inline constexpr bool kArithmetic = kOneOf<T, int16_t, half, int32_t, float>;
template <typename T>
inline constexpr bool kFloating = kOneOf<T, half, float>;
template <typename T>
inline constexpr bool kBitwise = kOneOf<T, int16_t, uint16_t>;

inline uint64_t CheckCount(int64_t count) {
  if (count < 0) {
    twin::Core::Current().Trap("E-25", "negative count %lld", static_cast<long long>(count));
  }
  return static_cast<uint64_t>(count);
}

// Two's complement wrap-around for integers, plain arithmetic otherwise.
template <typename T, typename F>
T Wrapping(T a, T b, F f) {
  if constexpr (std::is_integral<T>::value) {
    using Wide = uint64_t;
    return static_cast<T>(f(static_cast<Wide>(a), static_cast<Wide>(b)));
  } else {
    return static_cast<T>(f(a, b));
  }
}

struct AddOp {
  template <typename T>
  T operator()(T a, T b) const {
    return Wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct SubOp {
  template <typename T>
  T operator()(T a, T b) const {
    return Wrapping(a, b, [](auto x, auto y) { return x - y; });
  }
};
struct MulOp {
  template <typename T>
  T operator()(T a, T b) const {
    return Wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct DivOp {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a / b);
  }
};
struct MaxOp {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct MinOp {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct AndOp {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct OrOp {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};

// In the count form a source is the destination itself or disjoint from it.
template <typename D, typename S>
void CheckOverlap(const LocalTensor<D>& dst, const LocalTensor<S>& src, uint64_t count) {
  const uint64_t d = dst.GetPhyAddr();
  const uint64_t s = src.GetPhyAddr();
  if (d != s && d < s + count * sizeof(S) && s < d + count * sizeof(D)) {
    twin::Core::Current().Trap("E-27", "source and destination overlap at UB 0x%llx and 0x%llx",
                               static_cast<unsigned long long>(s), static_cast<unsigned long long>(d));
  }
  if (d == s && sizeof(D) != sizeof(S)) {
    twin::Core::Current().Trap("E-27", "in-place conversion between types of different size at UB 0x%llx",
                               static_cast<unsigned long long>(d));
  }
}

template <typename D, typename S>
void DefineFrom(const LocalTensor<D>& dst, uint64_t count, const LocalTensor<S>& src) {
  auto& core = twin::Core::Current();
  if (core.Defined(src.Range(), 0, count * sizeof(S))) {
    core.Define(dst.Range(), 0, count * sizeof(D));
    return;
  }
  for (uint64_t i = 0; i < count; ++i) {
    core.Defined(src.Range(), i * sizeof(S), sizeof(S)) ? core.Define(dst.Range(), i * sizeof(D), sizeof(D))
                                                        : core.Undefine(dst.Range(), i * sizeof(D), sizeof(D));
  }
}

// `loop(from, to, count)` computes all elements.
template <typename D, typename S, typename Loop>
void UnaryLoop(const char* name, const LocalTensor<D>& dst, const LocalTensor<S>& src, int64_t countIn, Loop loop) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint64_t count = CheckCount(countIn);
  if (count == 0) {
    return;
  }
  CheckOverlap(dst, src, count);
  const auto* from = reinterpret_cast<const S*>(core.UbRead(src.Range(), 0, count * sizeof(S)));
  auto* to = reinterpret_cast<D*>(core.UbWrite(dst.Range(), 0, count * sizeof(D)));
  loop(from, to, count);
  DefineFrom(dst, count, src);
}

template <typename D, typename S, typename F>
void Unary(const char* name, const LocalTensor<D>& dst, const LocalTensor<S>& src, int64_t count, F f) {
  UnaryLoop(name, dst, src, count, [f](const S* from, D* to, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      to[i] = f(from[i]);
    }
  });
}

template <typename T, typename F>
void Binary(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
            int64_t countIn, F f) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  const uint64_t count = CheckCount(countIn);
  if (count == 0) {
    return;
  }
  CheckOverlap(dst, src0, count);
  CheckOverlap(dst, src1, count);
  const auto* a = reinterpret_cast<const T*>(core.UbRead(src0.Range(), 0, count * sizeof(T)));
  const auto* b = reinterpret_cast<const T*>(core.UbRead(src1.Range(), 0, count * sizeof(T)));
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), 0, count * sizeof(T)));
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = f(a[i], b[i]);
  }
  if (core.Defined(src0.Range(), 0, count * sizeof(T)) && core.Defined(src1.Range(), 0, count * sizeof(T))) {
    core.Define(dst.Range(), 0, count * sizeof(T));
    return;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const bool defined =
        core.Defined(src0.Range(), i * sizeof(T), sizeof(T)) && core.Defined(src1.Range(), i * sizeof(T), sizeof(T));
    defined ? core.Define(dst.Range(), i * sizeof(T), sizeof(T)) : core.Undefine(dst.Range(), i * sizeof(T), sizeof(T));
  }
}

template <typename T>
void CheckMask(uint64_t low, uint64_t high) {
  constexpr uint32_t lanes = kLanesPerRepeat<T>;
  constexpr uint64_t beyondLow = lanes < 64 ? ~0ull << (lanes % 64) : 0;
  if (lanes < 128 && (high != 0 || (low & beyondLow) != 0)) {
    twin::Core::Current().Trap("E-24", "mask names lanes beyond %u", lanes);
  }
}

template <typename T>
void ContiguousMask(uint64_t count, uint64_t (&bits)[2]) {
  if (count > kLanesPerRepeat<T> || count > 128) {
    twin::Core::Current().Trap("E-24", "mask %llu is above the %u lanes of a repeat",
                               static_cast<unsigned long long>(count), kLanesPerRepeat<T>);
  }
  bits[0] = count >= 64 ? ~0ull : (1ull << count) - 1;
  bits[1] = count <= 64 ? 0 : (count == 128 ? ~0ull : (1ull << (count - 64)) - 1);
}

inline bool LaneOn(const uint64_t (&bits)[2], uint32_t lane) { return ((bits[lane / 64] >> (lane % 64)) & 1u) != 0; }

inline uint64_t LaneAddress(uint32_t repeat, uint32_t lane, uint32_t lanesPerBlock, uint32_t blockStride,
                            uint32_t repeatStride, std::size_t element) {
  return 32ull * (static_cast<uint64_t>(repeat) * repeatStride +
                  static_cast<uint64_t>(lane / lanesPerBlock) * blockStride) +
         (lane % lanesPerBlock) * element;
}

inline void CheckRepeat(int64_t repeat) {
  if (repeat < 0 || repeat > 255) {
    twin::Core::Current().Trap("E-23", "repeatTime %lld is outside 0..255", static_cast<long long>(repeat));
  }
}

// The eight blocks that one repeat of an operand touches, by byte offsets from the tensor's start.
class LaneBlocks {
 public:
  template <typename T>
  LaneBlocks(const LocalTensor<T>& tensor, uint32_t repeat, uint32_t blockStride, uint32_t repeatStride)
      : address_(tensor.GetPhyAddr()) {
    for (uint32_t block = 0; block < 8; ++block) {
      offsets_[block] = 32ull * (static_cast<uint64_t>(repeat) * repeatStride + block * blockStride);
    }
  }
  uint64_t Offset(uint32_t lane, uint32_t lanesPerBlock, std::size_t element) const {
    return offsets_[lane / lanesPerBlock] + (lane % lanesPerBlock) * element;
  }
  // A source block is the destination's block of the same lanes, or apart from all of its blocks.
  void CheckAgainst(const LaneBlocks& to) const {
    for (uint32_t i = 0; i < 8; ++i) {
      for (uint32_t j = 0; j < 8; ++j) {
        const uint64_t s = address_ + offsets_[i];
        if (i != j && s == to.address_ + to.offsets_[j]) {
          twin::Core::Current().Trap("E-27", "block %u of a source is block %u of the destination, at UB 0x%llx", i, j,
                                     static_cast<unsigned long long>(s));
        }
      }
    }
  }

 private:
  uint64_t address_;
  uint64_t offsets_[8];
};

template <typename T>
void CheckLaneOperand(const LocalTensor<T>& tensor) {
  if (tensor.GetPhyAddr() % twin::kUbBlock != 0) {
    twin::Core::Current().Trap("E-01", "UB address 0x%llx is not aligned to 32 bytes",
                               static_cast<unsigned long long>(tensor.GetPhyAddr()));
  }
}

template <typename T>
void DuplicateLanes(const LocalTensor<T>& dst, T value, const uint64_t (&bits)[2], int64_t repeat, uint32_t blockStride,
                    uint32_t repeatStride) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Duplicate");
  CheckRepeat(repeat);
  CheckMask<T>(bits[0], bits[1]);
  if (blockStride == 0) {
    core.Trap("E-25", "dstBlkStride must not be 0");
  }
  CheckLaneOperand(dst);
  for (uint32_t r = 0; r < static_cast<uint32_t>(repeat); ++r) {
    uint32_t lane = 0;
    while (lane < kLanesPerRepeat<T>) {
      if (!LaneOn(bits, lane)) {
        ++lane;
        continue;
      }
      // Lanes that lie side by side.
      uint32_t end = lane + 1;
      while (end < kLanesPerRepeat<T> && LaneOn(bits, end) && (blockStride == 1 || end % kLanesPerBlock<T> != 0)) {
        ++end;
      }
      const uint64_t at = LaneAddress(r, lane, kLanesPerBlock<T>, blockStride, repeatStride, sizeof(T));
      const uint64_t bytes = (end - lane) * sizeof(T);
      auto* to = core.UbWrite(dst.Range(), at, bytes, sizeof(T));
      for (uint64_t i = 0; i < bytes; i += sizeof(T)) {
        std::memcpy(to + i, &value, sizeof(T));
      }
      core.Define(dst.Range(), at, bytes);
      lane = end;
    }
  }
}

template <typename T, typename F>
void BinaryLanes(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                 const uint64_t (&bits)[2], int64_t repeat, const BinaryRepeatParams& p, F f) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  CheckRepeat(repeat);
  CheckMask<T>(bits[0], bits[1]);
  if (p.dstBlkStride == 0) {
    core.Trap("E-25", "dstBlkStride must not be 0");
  }
  CheckLaneOperand(dst);
  CheckLaneOperand(src0);
  CheckLaneOperand(src1);
  // One line of sums over all repeats: the destination is read again on purpose.
  const bool chained = dst.GetPhyAddr() == src1.GetPhyAddr() && p.dstRepStride == 0 && p.src1RepStride == 0;
  for (uint32_t r = 0; r < static_cast<uint32_t>(repeat); ++r) {
    const LaneBlocks to(dst, r, p.dstBlkStride, p.dstRepStride);
    const LaneBlocks left(src0, r, p.src0BlkStride, p.src0RepStride);
    const LaneBlocks right(src1, r, p.src1BlkStride, p.src1RepStride);
    left.CheckAgainst(to);
    right.CheckAgainst(to);
    T results[kLanesPerRepeat<T>];
    bool defined[kLanesPerRepeat<T>];
    const auto load = [&](const LocalTensor<T>& src, const LaneBlocks& blocks, uint32_t lane, bool mayChain, T& x) {
      const uint64_t at = blocks.Offset(lane, kLanesPerBlock<T>, sizeof(T));
      if (!mayChain && core.UbWrittenNow(src.Range(), at, sizeof(T))) {
        core.Trap("E-27", "a repeat reads UB 0x%llx, which an earlier repeat of the instruction has written",
                  static_cast<unsigned long long>(src.GetPhyAddr() + at));
      }
      std::memcpy(&x, core.UbRead(src.Range(), at, sizeof(T), sizeof(T)), sizeof(T));
      return core.Defined(src.Range(), at, sizeof(T));
    };
    for (uint32_t lane = 0; lane < kLanesPerRepeat<T>; ++lane) {
      if (LaneOn(bits, lane)) {
        T x;
        T y;
        const bool both = load(src0, left, lane, false, x) & load(src1, right, lane, chained, y);
        results[lane] = f(x, y);
        defined[lane] = both;
      }
    }
    for (uint32_t lane = 0; lane < kLanesPerRepeat<T>; ++lane) {
      if (LaneOn(bits, lane)) {
        const uint64_t at = to.Offset(lane, kLanesPerBlock<T>, sizeof(T));
        std::memcpy(core.UbWrite(dst.Range(), at, sizeof(T), sizeof(T)), &results[lane], sizeof(T));
        defined[lane] ? core.Define(dst.Range(), at, sizeof(T)) : core.Undefine(dst.Range(), at, sizeof(T));
      }
    }
  }
}

// One conversion of Cast's table; `allowed` is false where the pair does not take this mode.
template <typename D, typename S>
D Convert(S value, RoundMode mode) {
  if constexpr (std::is_same<S, bfloat16_t>::value) {
    return Convert<D, float>(ToFloat(value), mode);
  } else if constexpr (std::is_same<D, bfloat16_t>::value) {
    return ToBfloat16(static_cast<float>(value));
  } else if constexpr (std::is_integral<D>::value && !std::is_integral<S>::value) {
    double x = static_cast<double>(value);
    if (x != x) {
      return 0;
    }
    switch (mode) {
      case RoundMode::CAST_FLOOR:
        x = std::floor(x);
        break;
      case RoundMode::CAST_CEIL:
        x = std::ceil(x);
        break;
      case RoundMode::CAST_ROUND:
        x = std::round(x);
        break;
      case RoundMode::CAST_TRUNC:
        x = std::trunc(x);
        break;
      default:
        x = std::nearbyint(x);
        break;
    }
    const auto lowest = static_cast<double>(std::numeric_limits<D>::lowest());
    const auto highest = static_cast<double>(std::numeric_limits<D>::max());
    return x <= lowest    ? std::numeric_limits<D>::lowest()
           : x >= highest ? std::numeric_limits<D>::max()
                          : static_cast<D>(x);
  } else if constexpr (std::is_integral<D>::value && std::is_integral<S>::value && sizeof(D) < sizeof(S)) {
    const S lowest = std::numeric_limits<D>::lowest();
    const S highest = std::numeric_limits<D>::max();
    return static_cast<D>(value < lowest ? lowest : value > highest ? highest : value);
  } else {
    return static_cast<D>(value);
  }
}

template <typename D, typename S>
void ConvertAll(const S* from, D* to, uint64_t count, RoundMode mode) {
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
  auto* toBits = reinterpret_cast<uint16_t*>(to);
  if constexpr (std::is_same<S, half>::value && std::is_same<D, float>::value) {
    twin::WidenHalf(bits, to, count);
  } else if constexpr (std::is_same<S, bfloat16_t>::value && std::is_same<D, float>::value) {
    twin::WidenBfloat16(bits, to, count);
  } else if constexpr (std::is_same<S, float>::value && std::is_same<D, half>::value) {
    twin::NarrowHalf(from, toBits, count);
  } else if constexpr (std::is_same<S, float>::value && std::is_same<D, bfloat16_t>::value) {
    twin::NarrowBfloat16(from, toBits, count);
  } else {
    for (uint64_t i = 0; i < count; ++i) {
      to[i] = Convert<D, S>(from[i], mode);
    }
  }
}

template <typename D, typename S>
constexpr bool CastPair() {
  return (std::is_same<S, int8_t>::value && std::is_same<D, half>::value) ||
         (std::is_same<S, uint8_t>::value && std::is_same<D, half>::value) ||
         (std::is_same<S, int16_t>::value && kOneOf<D, half, float>) ||
         (std::is_same<S, int32_t>::value && kOneOf<D, float, int16_t, int64_t>) ||
         (std::is_same<S, int64_t>::value && kOneOf<D, int32_t, float>) ||
         (std::is_same<S, half>::value && kOneOf<D, float, int8_t, uint8_t, int16_t, int32_t>) ||
         (std::is_same<S, float>::value && kOneOf<D, half, bfloat16_t, int16_t, int32_t, int64_t>) ||
         (std::is_same<S, bfloat16_t>::value && kOneOf<D, float, int32_t>);
}

template <typename D, typename S>
constexpr bool CastMode(RoundMode mode) {
  const bool none = mode == RoundMode::CAST_NONE;
  const bool odd = mode == RoundMode::CAST_ODD;
  const bool exact = (std::is_same<D, float>::value && kOneOf<S, half, bfloat16_t, int16_t>) ||
                     (std::is_same<D, half>::value && kOneOf<S, int8_t, uint8_t>) ||
                     (std::is_integral<D>::value && std::is_integral<S>::value);
  const bool lossyNone = (std::is_same<S, int16_t>::value && std::is_same<D, half>::value) ||
                         (std::is_same<S, int32_t>::value && std::is_same<D, float>::value) ||
                         (std::is_same<S, half>::value && sizeof(D) == 1) ||
                         (std::is_same<S, float>::value && std::is_same<D, half>::value);
  return exact ? none : none ? lossyNone : !odd;
}

}  // namespace twin_detail

template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& value, const int32_t& countIn) {
  static_assert(kOneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                "E-30: Duplicate does not take this type");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "Duplicate");
  const uint64_t count = twin_detail::CheckCount(countIn);
  if (count == 0) {
    return;
  }
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), 0, count * sizeof(T)));
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = value;
  }
  core.Define(dst.Range(), 0, count * sizeof(T));
}

template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& value, uint64_t mask[], const int64_t repeatTime,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride) {
  static_assert(kOneOf<T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float>,
                "E-30: Duplicate does not take this type");
  const uint64_t bits[2] = {mask[0], mask[1]};
  twin_detail::DuplicateLanes(dst, value, bits, repeatTime, dstBlockStride, dstRepeatStride);
}

template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& value, uint64_t mask, const int64_t repeatTime,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride) {
  uint64_t bits[2];
  twin_detail::ContiguousMask<T>(mask, bits);
  Duplicate<T, isSetMask>(dst, value, bits, repeatTime, dstBlockStride, dstRepeatStride);
}

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
    uint64_t bits[2];                                                                                                  \
    twin_detail::ContiguousMask<T>(mask, bits);                                                                        \
    twin_detail::BinaryLanes(#NAME, dst, src0, src1, bits, repeatTime, params, twin_detail::OP{});                     \
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

#define TWIN_SCALAR(NAME, OP)                                                                              \
  template <typename T>                                                                                    \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalar, const int32_t& count) { \
    static_assert(twin_detail::kArithmetic<T>, "E-30: " #NAME " does not take this type");                 \
    twin_detail::Unary(#NAME, dst, src, count, [scalar](T x) { return twin_detail::OP{}(x, scalar); });    \
  }
TWIN_SCALAR(Adds, AddOp)
TWIN_SCALAR(Muls, MulOp)
TWIN_SCALAR(Maxs, MaxOp)
TWIN_SCALAR(Mins, MinOp)
#undef TWIN_SCALAR

#define TWIN_UNARY(NAME, EXPRESSION)                                                      \
  template <typename T>                                                                   \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) { \
    static_assert(twin_detail::kFloating<T>, "E-30: " #NAME " does not take this type");  \
    twin_detail::Unary(#NAME, dst, src, count, [](T element) {                            \
      const float x = static_cast<float>(element);                                        \
      return static_cast<T>(EXPRESSION);                                                  \
    });                                                                                   \
  }
TWIN_UNARY(Abs, std::fabs(x))
TWIN_UNARY(Ln, std::log(x))
TWIN_UNARY(Sqrt, std::sqrt(x))
#undef TWIN_UNARY

template <typename T>
void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {
  static_assert(twin_detail::kFloating<T>, "E-30: Exp does not take this type");
  if constexpr (std::is_same<T, float>::value) {
    twin_detail::UnaryLoop("Exp", dst, src, count, twin::ExpFloats);
  } else {
    twin_detail::Unary("Exp", dst, src, count, [](T x) { return static_cast<T>(std::exp(static_cast<float>(x))); });
  }
}

template <typename T>
void Relu(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {
  static_assert(kOneOf<T, half, int32_t, float>, "E-30: Relu does not take this type");
  twin_detail::Unary("Relu", dst, src, count, [](T x) { return x > T(0) ? x : T(0); });
}

template <typename T>
void Not(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {
  static_assert(twin_detail::kBitwise<T>, "E-30: Not does not take this type");
  twin_detail::Unary("Not", dst, src, count, [](T x) { return static_cast<T>(~x); });
}

template <typename D, typename S>
void Cast(const LocalTensor<D>& dst, const LocalTensor<S>& src, const RoundMode& mode, const uint32_t count) {
  static_assert(twin_detail::CastPair<D, S>(), "E-30: Cast does not convert this pair of types");
  if (!twin_detail::CastMode<D, S>(mode)) {
    twin::Core::Current().Trap("E-30", "Cast does not take round mode %d for this pair", static_cast<int>(mode));
  }
  if (!std::is_integral<D>::value && mode != RoundMode::CAST_NONE && mode != RoundMode::CAST_RINT) {
    twin::Core::Current().Trap("E-30", "the twin rounds to nearest even only when it narrows to a floating type");
  }
  twin_detail::UnaryLoop("Cast", dst, src, count,
                         [mode](const S* from, D* to, uint64_t n) { twin_detail::ConvertAll(from, to, n, mode); });
}

}  // namespace AscendC
