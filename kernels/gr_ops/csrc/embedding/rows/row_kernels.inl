// Included once per instruction set, inside namespace gr_ops::rows::<set>. Vectors are the compiler's own, so the same
// text serves SSE2, AVX2, AVX-512 and NEON; HALF_IN_HARDWARE(n) tells which widths convert fp16 by an instruction.

typedef float V4 __attribute__((vector_size(16)));
typedef float V8 __attribute__((vector_size(32)));
typedef float V16 __attribute__((vector_size(64)));

template <typename V>
struct Lanes;
template <>
struct Lanes<float> {
  static constexpr int count = 1;
};
template <>
struct Lanes<V4> {
  static constexpr int count = 4;
  typedef uint32_t Words __attribute__((vector_size(16)));
  typedef uint16_t Shorts __attribute__((vector_size(8)));
};
template <>
struct Lanes<V8> {
  static constexpr int count = 8;
  typedef uint32_t Words __attribute__((vector_size(32)));
  typedef uint16_t Shorts __attribute__((vector_size(16)));
};
template <>
struct Lanes<V16> {
  static constexpr int count = 16;
  typedef uint32_t Words __attribute__((vector_size(64)));
  typedef uint16_t Shorts __attribute__((vector_size(32)));
};

template <typename To, typename From>
static inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

template <typename V>
static inline V load(const float* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}

template <typename V>
static inline V load(const Bfloat16* from) {
  if constexpr (Lanes<V>::count == 1) {
    return bits_as<float>(static_cast<uint32_t>(from->bits) << 16);
  } else {
    typename Lanes<V>::Shorts shorts;
    __builtin_memcpy(&shorts, from, sizeof(shorts));
    return bits_as<V>(__builtin_convertvector(shorts, typename Lanes<V>::Words) << 16);
  }
}

template <typename V>
static inline V load(const Half* from) {
  if constexpr (Lanes<V>::count == 16) {
    V value;
    const V8 low = half_to_float8(from);
    const V8 high = half_to_float8(from + 8);
    __builtin_memcpy(&value, &low, sizeof(low));
    __builtin_memcpy(reinterpret_cast<char*>(&value) + sizeof(low), &high, sizeof(high));
    return value;
  } else if constexpr (Lanes<V>::count == 8) {
    return half_to_float8(from);
  } else {
    V value;
    float* lanes = reinterpret_cast<float*>(&value);
    for (int i = 0; i < Lanes<V>::count; ++i) lanes[i] = half_to_float(from[i]);
    return value;
  }
}

static inline Bfloat16 to_bfloat16(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// Columns [0, COUNT * lanes) of the rows: the sums stay in registers while the rows pass by.
template <typename V, int COUNT, bool weighted, typename Row, typename Index>
static inline void pool_columns(const Row* base, const Index* indices, int64_t count, int64_t readable, int64_t stride,
                                const float* weights, float scale, bool accumulate, float* out) {
  constexpr int lanes = Lanes<V>::count;
  constexpr int64_t ahead = 12;
  V sums[COUNT];
  for (int c = 0; c < COUNT; ++c) {
    if (accumulate) {
      sums[c] = load<V>(out + c * lanes);
    } else {
      sums[c] = V{};
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    if (i + ahead < readable) {
      const char* next = reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(base) +
                                                       static_cast<uintptr_t>(indices[i + ahead]) *
                                                           static_cast<uintptr_t>(stride) * sizeof(Row));
      for (unsigned line = 0; line < COUNT * lanes * sizeof(Row); line += 64) __builtin_prefetch(next + line);
    }
    const Row* row = base + static_cast<int64_t>(indices[i]) * stride;
    for (int c = 0; c < COUNT; ++c) {
      const V values = load<V>(row + c * lanes);
      if constexpr (weighted) {
        sums[c] += values * weights[i];
      } else {
        sums[c] += values;
      }
    }
  }
  for (int c = 0; c < COUNT; ++c) {
    if (scale != 1.0f) sums[c] *= scale;
    __builtin_memcpy(out + c * lanes, &sums[c], sizeof(V));
  }
}

template <bool weighted, typename Row, typename Index>
static inline void pool_rows(const Row* base, const Index* indices, int64_t count, int64_t readable, int64_t stride,
                             int64_t width, const float* weights, float scale, bool accumulate, float* out) {
  int64_t column = 0;
#define GR_OPS_POOL(V, COUNT)                                                                                     \
  for (; column + COUNT * Lanes<V>::count <= width; column += COUNT * Lanes<V>::count) {                          \
    pool_columns<V, COUNT, weighted>(base + column, indices, count, readable, stride, weights, scale, accumulate, \
                                     out + column);                                                               \
  }
  GR_OPS_POOL(V16, 8)
  GR_OPS_POOL(V16, 4)
  GR_OPS_POOL(V16, 2)
  GR_OPS_POOL(V16, 1)
  GR_OPS_POOL(V8, 1)
  GR_OPS_POOL(V4, 1)
  GR_OPS_POOL(float, 1)
#undef GR_OPS_POOL
}

template <typename Row, typename Index>
static void pool(const Row* base, const Index* indices, int64_t count, int64_t readable, int64_t stride, int64_t width,
                 const float* weights, float scale, bool accumulate, float* out) {
  if (weights != nullptr) {
    pool_rows<true>(base, indices, count, readable, stride, width, weights, scale, accumulate, out);
  } else {
    pool_rows<false>(base, indices, count, readable, stride, width, weights, scale, accumulate, out);
  }
}

template <typename Row>
static void widen(const Row* from, float* to, int64_t width) {
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) {
    const V8 values = load<V8>(from + i);
    __builtin_memcpy(to + i, &values, sizeof(values));
  }
  for (; i < width; ++i) to[i] = load<float>(from + i);
}

static void narrow(const float* from, float* to, int64_t width) {
  __builtin_memcpy(to, from, static_cast<uint64_t>(width) * sizeof(float));
}

static void narrow(const float* from, Bfloat16* to, int64_t width) {
  for (int64_t i = 0; i < width; ++i) to[i] = to_bfloat16(from[i]);
}

static void narrow(const float* from, Half* to, int64_t width) {
  int64_t i = 0;
  for (; i + 8 <= width; i += 8) float8_to_half(from + i, to + i);
  for (; i < width; ++i) to[i] = float_to_half(from[i]);
}

// Sixteen running sums, so that the order does not depend on the instruction set.
template <typename Term>
static inline float sum_of(int64_t width, Term term) {
  float lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= width; i += 16) {
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += term(i + lane);
  }
  for (int lane = 0; i < width; ++i, ++lane) lanes[lane] += term(i);
  for (int half = 8; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

static float dot(const float* a, const float* b, int64_t width) {
  return sum_of(width, [a, b](int64_t i) { return a[i] * b[i]; });
}

static void update_sgd(float* __restrict w, float*, float*, float* __restrict g, int64_t width, const Step& step) {
  const float rate = step.learning_rate;
  for (int64_t i = 0; i < width; ++i) w[i] -= rate * g[i];
}

static void update_adagrad(float* __restrict w, float* __restrict m, float*, float* __restrict g, int64_t width,
                           const Step& step) {
  const float rate = step.learning_rate;
  const float eps = step.eps;
  for (int64_t i = 0; i < width; ++i) {
    m[i] += g[i] * g[i];
    w[i] -= rate * g[i] / (__builtin_sqrtf(m[i]) + eps);
  }
}

// weight_decay_mode: 1 L2 (in the gradient), 2 and 5 decoupled, everything else none (spec/operators.md 6.5).
static void update_rowwise_adagrad(float* __restrict w, float* __restrict m, float*, float* __restrict g, int64_t width,
                                   const Step& step) {
  const float decay = step.weight_decay_mode == 1 ? step.weight_decay : 0.0f;
  m[0] += sum_of(width,
                 [=](int64_t i) {
                   const float value = g[i] + decay * w[i];
                   return value * value;
                 }) /
          static_cast<float>(width);
  const float rate = step.learning_rate / (__builtin_sqrtf(m[0]) + step.eps);
  float keep = 1.0f;
  if (step.weight_decay_mode == 1) keep = 1.0f - rate * step.weight_decay;
  if (step.weight_decay_mode == 2 || step.weight_decay_mode == 5) keep = 1.0f - step.learning_rate * step.weight_decay;
  for (int64_t i = 0; i < width; ++i) w[i] = keep * w[i] - rate * g[i];
  if (step.max_norm > 0.0f) {
    const float norm = __builtin_sqrtf(dot(w, w, width));
    if (norm > step.max_norm) {
      const float shrink = step.max_norm / norm;
      for (int64_t i = 0; i < width; ++i) w[i] *= shrink;
    }
  }
}

static void update_adam(float* __restrict w, float* __restrict m1, float* __restrict m2, float* __restrict g,
                        int64_t width, const Step& step) {
  const Step s = step;
  for (int64_t i = 0; i < width; ++i) {
    m1[i] = s.beta1 * m1[i] + s.rest1 * g[i];
    m2[i] = s.beta2 * m2[i] + s.rest2 * g[i] * g[i];
    const float direction = m1[i] * s.correction1 / (__builtin_sqrtf(m2[i] * s.correction2) + s.eps);
    w[i] -= s.learning_rate * (direction + s.weight_decay * w[i]);
  }
}

template <typename Row>
constexpr RowFunctions<Row> functions() {
  return {&pool<Row, int32_t>, &pool<Row, int64_t>, &widen<Row>, &narrow};
}

extern const RowKernels kernels;
constexpr RowKernels kernels = {functions<float>(),
                                functions<Half>(),
                                functions<Bfloat16>(),
                                {&update_sgd, &update_adagrad, &update_rowwise_adagrad, &update_adam},
                                &dot};
