// Columns of rows as vectors. Included once per instruction set, inside namespace row_math::<set>. Vectors are the
// compiler's own, so the same text serves SSE2, AVX2, AVX-512 and NEON. Before it stand the vector types (vectors.inl),
// and conversions of fp16 and square roots: x86.inl, or neon.inl or lanes.inl with square_roots.inl.

template <typename V>
static inline Pair<V> square_root(const Pair<V>& value) {
  return {square_root(value.low), square_root(value.high)};
}

template <typename V>
static inline V load(const float* from) {
  if constexpr (kIsPair<V>) {
    return {load<decltype(V::low)>(from), load<decltype(V::high)>(from + Lanes<V>::kCount / 2)};
  } else {
    V value;
    __builtin_memcpy(&value, from, sizeof(V));
    return value;
  }
}

template <typename V>
static inline V load(const Bfloat16* from) {
  if constexpr (kIsPair<V>) {
    return {load<decltype(V::low)>(from), load<decltype(V::high)>(from + Lanes<V>::kCount / 2)};
  } else if constexpr (Lanes<V>::kCount == 1) {
    return bits_as<float>(static_cast<uint32_t>(from->bits) << 16);
  } else {
    typename Lanes<V>::Shorts shorts;
    __builtin_memcpy(&shorts, from, sizeof(shorts));
    return bits_as<V>(__builtin_convertvector(shorts, typename Lanes<V>::Words) << 16);
  }
}

template <typename V>
static inline V load(const Half* from) {
  if constexpr (kIsPair<V>) {
    return {load<decltype(V::low)>(from), load<decltype(V::high)>(from + Lanes<V>::kCount / 2)};
  } else if constexpr (Lanes<V>::kCount == 1) {
    return half_to_float(*from);
  } else {
    return half_to_vector(from, As<V>());
  }
}

template <typename V>
static inline void store(float* to, const V& value) {
  if constexpr (kIsPair<V>) {
    store(to, value.low);
    store(to + Lanes<V>::kCount / 2, value.high);
  } else {
    __builtin_memcpy(to, &value, sizeof(V));
  }
}

static inline Bfloat16 to_bfloat16(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// -1, 0 or 1; 0 for what is not a number.
static inline float sign_of(float value) { return static_cast<float>(value > 0.0f) - static_cast<float>(value < 0.0f); }

// By integers: a comparison of more lanes than the set has goes lane by lane.
template <typename V>
static inline V sign_of(const V& value) {
  using Words = typename Lanes<V>::Words;
  const Words bits = bits_as<Words>(value);
  const Words magnitude = bits & 0x7fffffffu;
  const Words above_zero = (magnitude + 0x7fffffffu) >> 31;
  const Words not_a_number = (0x7f800000u - magnitude) >> 31;
  const Words one = (not_a_number - above_zero) & 0x3f800000u;
  return bits_as<V>((bits & 0x80000000u) | one);
}

// Calls body(As<V>(), column) for stretches of columns, as wide as vectors and the width allow.
template <typename Body>
static inline void for_columns(int64_t width, Body body) {
  int64_t column = 0;
  for (; column + 16 <= width; column += 16) body(As<V16>(), column);
  if (column + 8 <= width) {
    body(As<V8>(), column);
    column += 8;
  }
  if (column + 4 <= width) {
    body(As<V4>(), column);
    column += 4;
  }
  for (; column < width; ++column) body(As<float>(), column);
}

template <typename Half, typename V>
static inline Half sum_of_halves(const V& value) {
  if constexpr (kIsPair<V>) {
    return value.low + value.high;
  } else {
    Half halves[2];
    __builtin_memcpy(halves, &value, sizeof(halves));
    return halves[0] + halves[1];
  }
}

// The sum of term(As<V>(), column) over all columns, in the same order on every instruction set.
template <typename Term>
static inline float sum_of(int64_t width, Term term) {
  V16 wide{};
  int64_t column = 0;
  for (; column + 16 <= width; column += 16) wide += term(As<V16>(), column);
  V8 eight = sum_of_halves<V8>(wide);
  if (column + 8 <= width) {
    eight += term(As<V8>(), column);
    column += 8;
  }
  V4 four = sum_of_halves<V4>(eight);
  if (column + 4 <= width) {
    four += term(As<V4>(), column);
    column += 4;
  }
  float sum = (four[0] + four[1]) + (four[2] + four[3]);
  for (; column < width; ++column) sum += term(As<float>(), column);
  return sum;
}

static float dot(const float* a, const float* b, int64_t width) {
  return sum_of(width, [=](auto as, int64_t at) {
    return load<typename decltype(as)::type>(a + at) * load<typename decltype(as)::type>(b + at);
  });
}
