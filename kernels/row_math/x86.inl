// fp16 conversions by F16C and square roots; AVX2, and AVX-512 where it is on.

static inline float half_to_float(Half half) { return _cvtsh_ss(half.bits); }

static inline Half float_to_half(float value) {
  return {static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT))};
}

static inline V4 half_to_vector(const Half* from, As<V4>) {
  return (V4)_mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

static inline V8 half_to_vector(const Half* from, As<V8>) {
  return (V8)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

static inline void float8_to_half(const float* from, Half* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

static inline float square_root(float value) { return __builtin_sqrtf(value); }
static inline V4 square_root(const V4& value) { return (V4)_mm_sqrt_ps((__m128)value); }
static inline V8 square_root(const V8& value) { return (V8)_mm256_sqrt_ps((__m256)value); }

#if ROW_MATH_LANES >= 16
// The masked forms: the plain ones read an undefined register, of which the compiler warns.
static inline V16 half_to_vector(const Half* from, As<V16>) {
  return (V16)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

static inline V16 square_root(const V16& value) { return (V16)_mm512_maskz_sqrt_ps(0xffff, (__m512)value); }
#endif
