// Eight conversions one by one.

typedef float HalfLanes __attribute__((vector_size(32)));

static inline HalfLanes half_to_float8(const Half* from) {
  HalfLanes value;
  for (int i = 0; i < 8; ++i) value[i] = half_to_float(from[i]);
  return value;
}

static inline void float8_to_half(const float* from, Half* to) {
  for (int i = 0; i < 8; ++i) to[i] = float_to_half(from[i]);
}
