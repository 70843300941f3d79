// The count forms of vector instructions, and what elementwise instructions compute.
#pragma once
#include "ascendc/lanes.h"

namespace AscendC {
namespace twin_detail {

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

}  // namespace twin_detail
}  // namespace AscendC
