// Conversions and square roots lane by lane.

template <typename V>
static inline V half_to_vector(const Half* from) {
  V value{};
  for (unsigned i = 0; i < sizeof(V) / sizeof(float); ++i) value[i] = half_to_float(from[i]);
  return value;
}

static inline V4 half_to_float4(const Half* from) { return half_to_vector<V4>(from); }
static inline V8 half_to_float8(const Half* from) { return half_to_vector<V8>(from); }
static inline V16 half_to_float16(const Half* from) { return half_to_vector<V16>(from); }

static inline void float8_to_half(const float* from, Half* to) {
  for (int i = 0; i < 8; ++i) to[i] = float_to_half(from[i]);
}

static inline float square_root(float value) { return __builtin_sqrtf(value); }

template <typename V>
static inline V square_root(const V& value) {
  V result{};
  for (unsigned i = 0; i < sizeof(V) / sizeof(float); ++i) result[i] = __builtin_sqrtf(value[i]);
  return result;
}
