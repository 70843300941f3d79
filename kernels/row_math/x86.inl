// fp16 conversions by F16C and square roots; AVX2, and AVX-512 where it is on.

static inline float half_to_float(Half half) { return _cvtsh_ss(half.bits); }

static inline Half float_to_half(float value) {
  return {static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT))};
}

static inline V4 half_to_float4(const Half* from) {
  return (V4)_mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

static inline V8 half_to_float8(const Half* from) {
  return (V8)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

static inline void float8_to_half(const float* from, Half* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

static inline float square_root(float value) { return __builtin_sqrtf(value); }
static inline V4 square_root(const V4& value) { return (V4)_mm_sqrt_ps((__m128)value); }
static inline V8 square_root(const V8& value) { return (V8)_mm256_sqrt_ps((__m256)value); }

#if defined(ROW_MATH_AVX512)
// The masked forms: the plain ones read an undefined register, of which the compiler warns.
static inline V16 half_to_float16(const Half* from) {
  return (V16)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

static inline V16 square_root(const V16& value) { return (V16)_mm512_maskz_sqrt_ps(0xffff, (__m512)value); }
#else
static inline V16 join(const V8& low, const V8& high) {
  return __builtin_shuffle(
      (V16){low[0], low[1], low[2], low[3], low[4], low[5], low[6], low[7], high[0], high[1], high[2], high[3], high[4],
            high[5], high[6], high[7]},
      (int __attribute__((vector_size(64)))){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
}

static inline V16 half_to_float16(const Half* from) { return join(half_to_float8(from), half_to_float8(from + 8)); }

static inline V16 square_root(const V16& value) {
  V8 halves[2];
  __builtin_memcpy(halves, &value, sizeof(value));
  return join(square_root(halves[0]), square_root(halves[1]));
}
#endif
