#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// Vectors as wide as the instruction set that this file is compiled for, on the compiler's own vector types.
namespace gr_ops::hstu {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <typename T>
struct Lanes;

#define GR_OPS_LANES(T, I)                                                                        \
  template <>                                                                                     \
  struct Lanes<T> {                                                                               \
    typedef T Vector __attribute__((vector_size(kVectorBytes)));                                  \
    typedef T Loose __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));    \
    typedef I Int;                                                                                \
    typedef I IntVector __attribute__((vector_size(kVectorBytes)));                               \
    typedef I IntLoose __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias)); \
    static constexpr int count = kVectorBytes / static_cast<int>(sizeof(T));                      \
  };
GR_OPS_LANES(float, int32_t)
GR_OPS_LANES(double, int64_t)
#undef GR_OPS_LANES

using VectorF = Lanes<float>::Vector;
using VectorD = Lanes<double>::Vector;
using IntVectorF = Lanes<float>::IntVector;

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <typename T>
inline typename Lanes<T>::Vector splat(T value) {
  typename Lanes<T>::Vector result;
  for (int i = 0; i < Lanes<T>::count; ++i) result[i] = value;
  return result;
}

#if defined(__AVX512F__)
template <>
inline VectorF splat(float value) {
  return (VectorF)_mm512_set1_ps(value);
}
template <>
inline VectorD splat(double value) {
  return (VectorD)_mm512_set1_pd(value);
}
#elif defined(__AVX2__)
template <>
inline VectorF splat(float value) {
  return (VectorF)_mm256_set1_ps(value);
}
template <>
inline VectorD splat(double value) {
  return (VectorD)_mm256_set1_pd(value);
}
#else
template <>
inline VectorF splat(float value) {
  return VectorF{value, value, value, value};
}
template <>
inline VectorD splat(double value) {
  return VectorD{value, value};
}
#endif

// ---- load and store, with conversion to and from the type of accumulation

inline VectorF load(const float* from) { return *reinterpret_cast<const Lanes<float>::Loose*>(from); }
inline VectorD load(const double* from) { return *reinterpret_cast<const Lanes<double>::Loose*>(from); }

typedef uint16_t Vector16 __attribute__((vector_size(kVectorBytes / 2)));
typedef uint32_t Vector32 __attribute__((vector_size(kVectorBytes)));

inline Vector16 load16(const void* from) {
  Vector16 bits;
  std::memcpy(&bits, from, sizeof(bits));
  return bits;
}

inline VectorF load(const BFloat16* from) {
  return reinterpret_cast<VectorF>(__builtin_convertvector(load16(from), Vector32) << 16);
}

// Exact, subnormals included, without an instruction for it.
inline float widen(Half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const uint32_t rest = value.bits & 0x7fff;
  uint32_t bits;
  if (rest >= 0x7c00) {
    bits = 0x7f800000 | (rest << 13);
  } else {
    bits = rest << 13;
    float scaled;
    std::memcpy(&scaled, &bits, 4);
    scaled *= 5.192296858534828e33f;  // 2^112
    std::memcpy(&bits, &scaled, 4);
  }
  bits |= sign;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

inline Half narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t sign = (bits >> 16) & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (bits >= 0x47800000) return {static_cast<uint16_t>(sign | 0x7c00)};
  if (bits < 0x38800000) {  // subnormal: the addition rounds at the right bit
    float magnitude;
    std::memcpy(&magnitude, &bits, 4);
    magnitude += 0.5f;
    std::memcpy(&bits, &magnitude, 4);
    return {static_cast<uint16_t>(sign | (bits - 0x3f000000))};
  }
  bits += 0xfff + ((bits >> 13) & 1) - 0x38000000;
  return {static_cast<uint16_t>(sign | (bits >> 13))};
}

inline VectorF load(const Half* from) {
#if defined(__AVX512F__)
  return (VectorF)_mm512_cvtph_ps((__m256i)load16(from));
#elif defined(__AVX2__)
  return (VectorF)_mm256_cvtph_ps((__m128i)load16(from));
#else
  VectorF result;
  for (int i = 0; i < Lanes<float>::count; ++i) result[i] = widen(from[i]);
  return result;
#endif
}

inline void store(float* to, VectorF value) { *reinterpret_cast<Lanes<float>::Loose*>(to) = value; }
inline void store(double* to, VectorD value) { *reinterpret_cast<Lanes<double>::Loose*>(to) = value; }

// Round to nearest even; NaN stays NaN.
inline Vector16 narrow_bfloat16(VectorF value) {
  const Vector32 bits = reinterpret_cast<Vector32>(value);
  const Vector32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Vector32 chosen = value == value ? rounded : (bits >> 16) | 0x40;
  return __builtin_convertvector(chosen, Vector16);
}

inline void store(BFloat16* to, VectorF value) {
#if defined(__AVX512BF16__)
  const __m256bh bits = _mm512_cvtneps_pbh((__m512)value);
#else
  const Vector16 bits = narrow_bfloat16(value);
#endif
  std::memcpy(to, &bits, sizeof(bits));
}

inline void store(Half* to, VectorF value) {
#if defined(__AVX512F__)
  const __m256i bits = _mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  std::memcpy(to, &bits, sizeof(bits));
#elif defined(__AVX2__)
  const __m128i bits = _mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  std::memcpy(to, &bits, sizeof(bits));
#else
  for (int i = 0; i < Lanes<float>::count; ++i) to[i] = narrow(value[i]);
#endif
}

// The first n lanes; the others are 0.
template <typename Stored>
inline auto load_some(const Stored* from, int n) -> decltype(load(from)) {
  constexpr int count = sizeof(decltype(load(from))) / (sizeof(Stored) == 8 ? 8 : 4);
  if (n >= count) return load(from);
  Stored padded[count];
  std::memset(static_cast<void*>(padded), 0, sizeof(padded));
  if (n > 0) std::memcpy(static_cast<void*>(padded), from, n * sizeof(Stored));
  return load(padded);
}

template <typename Stored, typename Vector>
inline void store_some(Stored* to, Vector value, int n) {
  constexpr int count = sizeof(Vector) / (sizeof(Stored) == 8 ? 8 : 4);
  if (n >= count) return store(to, value);
  Stored padded[count];
  store(padded, value);
  if (n > 0) std::memcpy(static_cast<void*>(to), padded, n * sizeof(Stored));
}

#if defined(__AVX512F__)
// A mask takes no longer than a whole vector; the copies above wait for their own stores.
template <int Count>
inline uint32_t first_lanes(int n) {
  return (1U << (n < 0 ? 0 : n < Count ? n : Count)) - 1U;
}

template <>
inline VectorF load_some(const float* from, int n) {
  return (VectorF)_mm512_maskz_loadu_ps(static_cast<__mmask16>(first_lanes<16>(n)), from);
}
template <>
inline VectorD load_some(const double* from, int n) {
  return (VectorD)_mm512_maskz_loadu_pd(static_cast<__mmask8>(first_lanes<8>(n)), from);
}
template <>
inline void store_some(float* to, VectorF value, int n) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(first_lanes<16>(n)), (__m512)value);
}
template <>
inline void store_some(double* to, VectorD value, int n) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>(first_lanes<8>(n)), (__m512d)value);
}
#endif

// ---- transposition of a square of vectors, in log2(count) stages that each swap off-diagonal quarters

template <int Stage, typename Vector, typename IntVector, int Count>
inline void transpose_stage(Vector (&rows)[Count]) {
  IntVector low, high;
  for (int e = 0; e < Count; ++e) {
    low[e] = (e & Stage) == 0 ? e : Count + e - Stage;
    high[e] = (e & Stage) == 0 ? e + Stage : Count + e;
  }
#pragma GCC unroll 16
  for (int r = 0; r < Count; ++r) {
    if ((r & Stage) != 0) continue;
    const Vector a = rows[r];
    const Vector b = rows[r + Stage];
    rows[r] = __builtin_shuffle(a, b, low);
    rows[r + Stage] = __builtin_shuffle(a, b, high);
  }
}

template <typename T>
inline void transpose(typename Lanes<T>::Vector (&rows)[Lanes<T>::count]) {
  using Vector = typename Lanes<T>::Vector;
  using IntVector = typename Lanes<T>::IntVector;
  constexpr int count = Lanes<T>::count;
  if constexpr (count >= 16) transpose_stage<8, Vector, IntVector>(rows);
  if constexpr (count >= 8) transpose_stage<4, Vector, IntVector>(rows);
  if constexpr (count >= 4) transpose_stage<2, Vector, IntVector>(rows);
  transpose_stage<1, Vector, IntVector>(rows);
}

}  // namespace
}  // namespace gr_ops::hstu
