// fp16 conversions by F16C.

static inline float half_to_float(Half half) { return _cvtsh_ss(half.bits); }

static inline Half float_to_half(float value) {
  return {static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT))};
}

typedef float HalfLanes __attribute__((vector_size(32)));

static inline HalfLanes half_to_float8(const Half* from) {
  return (HalfLanes)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

static inline void float8_to_half(const float* from, Half* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
