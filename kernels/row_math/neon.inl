// fp16 conversions and square roots of aarch64.
typedef __fp16 HalfV4 __attribute__((vector_size(8)));

static inline float half_to_float(Half half) { return static_cast<float>(bits_as<__fp16>(half.bits)); }

static inline Half float_to_half(float value) { return {bits_as<uint16_t>(static_cast<__fp16>(value))}; }

static inline V4 half_to_vector(const Half* from, As<V4>) {
  HalfV4 halves;
  __builtin_memcpy(&halves, from, sizeof(halves));
  return __builtin_convertvector(halves, V4);
}

static inline void float8_to_half(const float* from, Half* to) {
  for (int i = 0; i < 8; i += 4) {
    V4 values;
    __builtin_memcpy(&values, from + i, sizeof(values));
    const HalfV4 halves = __builtin_convertvector(values, HalfV4);
    __builtin_memcpy(to + i, &halves, sizeof(halves));
  }
}
