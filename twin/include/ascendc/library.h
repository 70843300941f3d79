// Functions of the library layer: element by element, clamps, powers, sums of rows, broadcasts. Each takes scratch or
// finds its own; here both compute the same, and what scratch held is lost.
#pragma once
#include "ascendc/elementwise.h"

namespace AscendC {

struct SumParams {
  uint32_t outter = 1;
  uint32_t inner = 0;
  uint32_t n = 0;
};
struct MeanParams {
  uint32_t outter = 1;
  uint32_t inner = 0;
  uint32_t n = 0;
};
struct SelectWithBytesMaskShapeInfo {
  uint32_t firstAxis = 0;
  uint32_t srcLastAxis = 0;
  uint32_t maskLastAxis = 0;
};

namespace twin_detail {

inline void LoseScratch(const LocalTensor<uint8_t>& scratch) {
  auto& core = twin::Core::Current();
  core.UbWrite(scratch.Range(), 0, scratch.Range().bytes);
  core.Undefine(scratch.Range(), 0, scratch.Range().bytes);
}

template <typename T, typename F>
void Mapped(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, F f) {
  static_assert(kFloating<T>, "E-30: this function takes half and float");
  Unary(name, dst, src, count, [f](T x) { return static_cast<T>(f(static_cast<float>(x))); });
}

inline float GeluOf(float x) {
  return 0.5f * x * (1.0f + std::tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}
inline float SignOf(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }

// One result for each row of `inner` elements, of which the first n count.
template <typename T, typename Params, typename F>
void Rows(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, const Params& p, F finish) {
  static_assert(kFloating<T>, "E-30: this function takes half and float");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, name);
  if (p.n > p.inner || p.inner * sizeof(T) % twin::kUbBlock != 0) {
    core.Trap("E-25", "%s of rows of %u elements, %u of them counted: rows are whole blocks of 32 bytes", name, p.inner,
              p.n);
  }
  for (uint32_t row = 0; row < p.outter; ++row) {
    const uint64_t at = static_cast<uint64_t>(row) * p.inner * sizeof(T);
    const auto* from = reinterpret_cast<const T*>(core.UbRead(src.Range(), at, p.n * sizeof(T)));
    float sum = 0;
    for (uint32_t i = 0; i < p.n; ++i) {
      sum += static_cast<float>(from[i]);
    }
    const T result = static_cast<T>(finish(sum));
    const bool defined = core.Defined(src.Range(), at, p.n * sizeof(T));
    std::memcpy(core.UbWrite(dst.Range(), row * sizeof(T), sizeof(T), sizeof(T)), &result, sizeof(T));
    defined ? core.Define(dst.Range(), row * sizeof(T), sizeof(T))
            : core.Undefine(dst.Range(), row * sizeof(T), sizeof(T));
  }
}

// `first(row, i)` where the mask's byte is 0, else `second(row, i)`.
template <typename T, typename U, typename F, typename G>
void SelectBytes(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const SelectWithBytesMaskShapeInfo& info,
                 F first, G second) {
  static_assert(sizeof(U) == 1 || sizeof(U) == 2 || sizeof(U) == 4, "E-30: SelectWithBytesMask: type of the mask");
  auto& core = twin::Core::Current();
  if (info.srcLastAxis > info.maskLastAxis || info.maskLastAxis % 16 != 0) {
    core.Trap("E-25", "SelectWithBytesMask: maskLastAxis %u is below srcLastAxis %u, or no multiple of 16",
              info.maskLastAxis, info.srcLastAxis);
  }
  const uint64_t maskBytes = static_cast<uint64_t>(info.firstAxis) * info.maskLastAxis * sizeof(U);
  const auto* chosen = reinterpret_cast<const U*>(core.UbRead(mask.Range(), 0, maskBytes));
  core.RequireDefined(mask.Range(), 0, maskBytes);
  const uint64_t count = static_cast<uint64_t>(info.firstAxis) * info.srcLastAxis;
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), 0, count * sizeof(T)));
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = i / info.srcLastAxis * info.maskLastAxis + i % info.srcLastAxis;
    to[i] = chosen[at] == 0 ? first(i) : second(i);
  }
  core.Define(dst.Range(), 0, count * sizeof(T));
}

}  // namespace twin_detail

#define TWIN_MATH(NAME, EXPRESSION)                                                                              \
  template <typename T, bool isReuseSource = false>                                                              \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t calCount) {                     \
    twin_detail::Mapped(#NAME, dst, src, calCount, [](float x) { return EXPRESSION; });                          \
  }                                                                                                              \
  template <typename T, bool isReuseSource = false>                                                              \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src) {                                              \
    NAME(dst, src, src.GetSize());                                                                               \
  }                                                                                                              \
  template <typename T, bool isReuseSource = false>                                                              \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,   \
            const uint32_t calCount) {                                                                           \
    NAME(dst, src, calCount);                                                                                    \
    twin_detail::LoseScratch(sharedTmpBuffer);                                                                   \
  }                                                                                                              \
  template <typename T, bool isReuseSource = false>                                                              \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer) { \
    NAME(dst, src, sharedTmpBuffer, src.GetSize());                                                              \
  }
TWIN_MATH(Sigmoid, 1.0f / (1.0f + std::exp(-x)))
TWIN_MATH(Tanh, std::tanh(x))
TWIN_MATH(Sin, std::sin(x))
TWIN_MATH(Cos, std::cos(x))
TWIN_MATH(Tan, std::tan(x))
TWIN_MATH(Asin, std::asin(x))
TWIN_MATH(Acos, std::acos(x))
TWIN_MATH(Atan, std::atan(x))
TWIN_MATH(Sinh, std::sinh(x))
TWIN_MATH(Cosh, std::cosh(x))
TWIN_MATH(Asinh, std::asinh(x))
TWIN_MATH(Acosh, std::acosh(x))
TWIN_MATH(Atanh, std::atanh(x))
TWIN_MATH(Erf, std::erf(x))
TWIN_MATH(Erfc, std::erfc(x))
TWIN_MATH(Floor, std::floor(x))
TWIN_MATH(Ceil, std::ceil(x))
TWIN_MATH(Round, std::nearbyint(x))
TWIN_MATH(Trunc, std::trunc(x))
TWIN_MATH(Frac, x - std::trunc(x))
TWIN_MATH(Sign, twin_detail::SignOf(x))
TWIN_MATH(Log, std::log(x))
TWIN_MATH(Log2, std::log2(x))
TWIN_MATH(Log10, std::log10(x))
#undef TWIN_MATH

template <typename T, bool isReuseSource = false>
void Silu(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize) {
  if (dst.GetPhyAddr() == src.GetPhyAddr()) {
    twin::Core::Current().Trap("E-27", "Silu does not work in place");
  }
  twin_detail::Mapped("Silu", dst, src, dataSize, [](float x) { return x / (1.0f + std::exp(-x)); });
}

template <typename T, bool isReuseSource = false>
void Swish(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize, const T scalarValue) {
  const auto beta = static_cast<float>(scalarValue);
  twin_detail::Mapped("Swish", dst, src, dataSize, [beta](float x) { return x / (1.0f + std::exp(-beta * x)); });
}

template <typename T, bool highPrecision = false, bool highPerformance = false>
void Gelu(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dataSize) {
  twin_detail::Mapped("Gelu", dst, src, dataSize, twin_detail::GeluOf);
}
template <typename T, bool highPrecision = false, bool highPerformance = false>
void Gelu(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
          const uint32_t dataSize) {
  Gelu(dst, src, dataSize);
  twin_detail::LoseScratch(sharedTmpBuffer);
}

#define TWIN_CLAMP(NAME, OP)                                                                                   \
  template <typename T, bool isReuseSource = false>                                                            \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T scalar, const uint32_t calCount) {   \
    static_assert(twin_detail::kFloating<T>, "E-30: " #NAME " does not take this type");                       \
    twin_detail::Unary(#NAME, dst, src, calCount, [scalar](T x) { return twin_detail::OP{}(x, scalar); });     \
  }                                                                                                            \
  template <typename T, bool isReuseSource = false>                                                            \
  void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, \
            const T scalar, const uint32_t calCount) {                                                         \
    NAME(dst, src, scalar, calCount);                                                                          \
    twin_detail::LoseScratch(sharedTmpBuffer);                                                                 \
  }
TWIN_CLAMP(ClampMax, MinOp)
TWIN_CLAMP(ClampMin, MaxOp)
#undef TWIN_CLAMP

namespace twin_detail {
struct PowerOp {
  template <typename T>
  T operator()(T x, T y) const {
    return static_cast<T>(std::pow(static_cast<double>(x), static_cast<double>(y)));
  }
};
}  // namespace twin_detail

template <typename T, bool isReuseSource = false>
void Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint32_t calCount) {
  static_assert(kOneOf<T, half, float, int32_t>, "E-30: Power does not take this type");
  twin_detail::Binary("Power", dst, src0, src1, calCount, twin_detail::PowerOp{});
}
template <typename T, bool isReuseSource = false>
void Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T& src1, uint32_t calCount) {
  static_assert(kOneOf<T, half, float, int32_t>, "E-30: Power does not take this type");
  twin_detail::Unary("Power", dst, src0, calCount, [src1](T x) { return twin_detail::PowerOp{}(x, src1); });
}
template <typename T, bool isReuseSource = false>
void Power(const LocalTensor<T>& dst, const T& src0, const LocalTensor<T>& src1, uint32_t calCount) {
  static_assert(kOneOf<T, half, float, int32_t>, "E-30: Power does not take this type");
  twin_detail::Unary("Power", dst, src1, calCount, [src0](T y) { return twin_detail::PowerOp{}(src0, y); });
}
#define TWIN_POWER(FIRST, SECOND)                                                                             \
  template <typename T, bool isReuseSource = false>                                                           \
  void Power(const LocalTensor<T>& dst, FIRST src0, SECOND src1, const LocalTensor<uint8_t>& sharedTmpBuffer, \
             uint32_t calCount) {                                                                             \
    Power(dst, src0, src1, calCount);                                                                         \
    twin_detail::LoseScratch(sharedTmpBuffer);                                                                \
  }
TWIN_POWER(const LocalTensor<T>&, const LocalTensor<T>&)
TWIN_POWER(const LocalTensor<T>&, const T&)
TWIN_POWER(const T&, const LocalTensor<T>&)
#undef TWIN_POWER

template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SumParams& params) {
  twin_detail::Rows("Sum", dst, src, params, [](float sum) { return sum; });
}
template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
         const SumParams& params) {
  Sum(dst, src, params);
  twin_detail::LoseScratch(sharedTmpBuffer);
}
template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false,
          int32_t reduceDim = -1>
void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MeanParams& params) {
  const auto n = static_cast<float>(params.n);
  twin_detail::Rows("Mean", dst, src, params, [n](float sum) { return sum / n; });
}
template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false,
          int32_t reduceDim = -1>
void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
          const MeanParams& params) {
  Mean(dst, src, params);
  twin_detail::LoseScratch(sharedTmpBuffer);
}

// [n] or [1, n] or [m, 1] to [m, n]; `axis` is the one that grows.
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
               const uint32_t srcShape[dim]) {
  static_assert((dim == 1 || dim == 2) && (axis == 0 || axis == 1), "BroadCast: one or two dimensions");
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "BroadCast");
  const uint32_t rows = dim == 2 ? dstShape[0] : 1;
  const uint32_t columns = dstShape[dim - 1];
  const uint32_t sourceRows = dim == 2 ? srcShape[0] : 1;
  const uint32_t sourceColumns = srcShape[dim - 1];
  if ((sourceRows != rows && sourceRows != 1) || (sourceColumns != columns && sourceColumns != 1)) {
    core.Trap("E-25", "BroadCast of [%u, %u] to [%u, %u]", sourceRows, sourceColumns, rows, columns);
  }
  const uint64_t bytes = static_cast<uint64_t>(sourceRows) * sourceColumns * sizeof(T);
  const auto* from = reinterpret_cast<const T*>(core.UbRead(src.Range(), 0, bytes));
  const bool defined = core.Defined(src.Range(), 0, bytes);
  const uint64_t written = static_cast<uint64_t>(rows) * columns * sizeof(T);
  auto* to = reinterpret_cast<T*>(core.UbWrite(dst.Range(), 0, written));
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t c = 0; c < columns; ++c) {
      to[static_cast<uint64_t>(r) * columns + c] =
          from[static_cast<uint64_t>(sourceRows == 1 ? 0 : r) * sourceColumns + (sourceColumns == 1 ? 0 : c)];
    }
  }
  defined ? core.Define(dst.Range(), 0, written) : core.Undefine(dst.Range(), 0, written);
}
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],
               const uint32_t srcShape[dim], LocalTensor<uint8_t>& sharedTmpBuffer) {
  BroadCast<T, dim, axis>(dst, src, dstShape, srcShape);
  twin_detail::LoseScratch(sharedTmpBuffer);
}

// By bytes of a mask: 0 takes src0, any other value src1.
template <typename T, typename U, bool isReuseMask = true>
void SelectWithBytesMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, T src1, const LocalTensor<U>& mask,
                         const LocalTensor<uint8_t>& sharedTmpBuffer, const SelectWithBytesMaskShapeInfo& info) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "SelectWithBytesMask");
  const uint64_t bytes = static_cast<uint64_t>(info.firstAxis) * info.srcLastAxis * sizeof(T);
  const auto* from = reinterpret_cast<const T*>(core.UbRead(src0.Range(), 0, bytes));
  core.RequireDefined(src0.Range(), 0, bytes);
  twin_detail::SelectBytes(dst, mask, info, [from](uint64_t i) { return from[i]; }, [src1](uint64_t) { return src1; });
  twin_detail::LoseScratch(sharedTmpBuffer);
}
template <typename T, typename U, bool isReuseMask = true>
void SelectWithBytesMask(const LocalTensor<T>& dst, T src0, const LocalTensor<T>& src1, const LocalTensor<U>& mask,
                         const LocalTensor<uint8_t>& sharedTmpBuffer, const SelectWithBytesMaskShapeInfo& info) {
  auto& core = twin::Core::Current();
  core.Issue(PIPE_V, "SelectWithBytesMask");
  const uint64_t bytes = static_cast<uint64_t>(info.firstAxis) * info.srcLastAxis * sizeof(T);
  const auto* from = reinterpret_cast<const T*>(core.UbRead(src1.Range(), 0, bytes));
  core.RequireDefined(src1.Range(), 0, bytes);
  twin_detail::SelectBytes(dst, mask, info, [src0](uint64_t) { return src0; }, [from](uint64_t i) { return from[i]; });
  twin_detail::LoseScratch(sharedTmpBuffer);
}

}  // namespace AscendC
