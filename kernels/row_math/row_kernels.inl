// Included once per instruction set, inside namespace gr_ops::rows::<set>. Vectors are the compiler's own, so the same
// text serves SSE2, AVX2, AVX-512 and NEON. Before it stand the vector types (vectors.inl), and conversions of fp16 and
// square roots by the set's own instructions (x86.inl) or lane by lane (lanes.inl).

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
    return half_to_float16(from);
  } else if constexpr (Lanes<V>::count == 8) {
    return half_to_float8(from);
  } else if constexpr (Lanes<V>::count == 4) {
    return half_to_float4(from);
  } else {
    return half_to_float(*from);
  }
}

template <typename V>
static inline void store(float* to, const V& value) {
  __builtin_memcpy(to, &value, sizeof(V));
}

static inline Bfloat16 to_bfloat16(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// A vector type as an argument.
template <typename V>
struct As {
  using type = V;
};

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

// COUNT vectors of columns of every bag: the sums stay in registers while the rows pass by.
template <typename V, int COUNT, bool weighted, typename Row, typename Index>
static inline void pool_columns(const Row* base, const Index* indices, const int64_t* offsets, int64_t bags,
                                int64_t stride, const float* weights, bool mean, float* out, int64_t out_stride) {
  constexpr int lanes = Lanes<V>::count;
  constexpr int64_t ahead = COUNT * lanes * sizeof(Row) < 512 ? 32 : 24;  // rows; measured
  const int64_t readable = offsets[bags] - ahead;
  int64_t k = offsets[0];
  for (int64_t bag = 0; bag < bags; ++bag, out += out_stride) {
    const int64_t start = k;
    const int64_t end = offsets[bag + 1];
    V sums[COUNT];
    for (int c = 0; c < COUNT; ++c) sums[c] = V{};
    for (; k < end; ++k) {
      if (k < readable) {
        const uintptr_t distance =
            static_cast<uintptr_t>(indices[k + ahead]) * static_cast<uintptr_t>(stride) * sizeof(Row);
        const char* next = reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(base) + distance);
        for (unsigned line = 0; line < COUNT * lanes * sizeof(Row); line += 64) __builtin_prefetch(next + line);
      }
      const Row* row = base + static_cast<int64_t>(indices[k]) * stride;
      for (int c = 0; c < COUNT; ++c) {
        const V values = load<V>(row + c * lanes);
        if constexpr (weighted) {
          sums[c] += values * weights[k];
        } else {
          sums[c] += values;
        }
      }
    }
    const float scale = mean && end > start + 1 ? 1.0f / static_cast<float>(end - start) : 1.0f;
    for (int c = 0; c < COUNT; ++c) {
      if (mean) sums[c] *= scale;
      store(out + c * lanes, sums[c]);
    }
  }
}

template <bool weighted, typename Row, typename Index>
static inline void pool_rows(const Row* base, const Index* indices, const int64_t* offsets, int64_t bags,
                             int64_t stride, int64_t width, const float* weights, bool mean, float* out,
                             int64_t out_stride) {
  int64_t column = 0;
#define GR_OPS_POOL(V, COUNT)                                                                                    \
  for (; column + COUNT * Lanes<V>::count <= width; column += COUNT * Lanes<V>::count) {                         \
    pool_columns<V, COUNT, weighted>(base + column, indices, offsets, bags, stride, weights, mean, out + column, \
                                     out_stride);                                                                \
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
static void pool(const Row* base, const Index* indices, const int64_t* offsets, int64_t bags, int64_t stride,
                 int64_t width, const float* weights, bool mean, float* out, int64_t out_stride) {
  if (weights != nullptr) {
    pool_rows<true>(base, indices, offsets, bags, stride, width, weights, mean, out, out_stride);
  } else {
    pool_rows<false>(base, indices, offsets, bags, stride, width, weights, mean, out, out_stride);
  }
}

template <typename Row>
static void widen(const Row* from, float* to, int64_t width) {
  for_columns(width,
              [=](auto as, int64_t column) { store(to + column, load<typename decltype(as)::type>(from + column)); });
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

template <typename Half, typename V>
static inline Half sum_of_halves(const V& value) {
  Half halves[2];
  __builtin_memcpy(halves, &value, sizeof(halves));
  return halves[0] + halves[1];
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

template <typename Index>
static bool valid(const Index* indices, int64_t count, int64_t rows) {
  Index low = 0;
  Index high = 0;
  for (int64_t k = 0; k < count; ++k) {
    low = indices[k] < low ? indices[k] : low;
    high = indices[k] > high ? indices[k] : high;
  }
  return count == 0 || (low >= 0 && static_cast<int64_t>(high) < rows);
}

template <typename Index, typename Unsigned>
static bool ascending(const Index* values, int64_t count) {
  Unsigned signs = count > 0 ? static_cast<Unsigned>(values[0]) : 0;  // the sign bits tell: no branch in the loop
  for (int64_t i = 1; i < count; ++i) {
    const auto value = static_cast<Unsigned>(values[i]);
    signs |= value | (value - static_cast<Unsigned>(values[i - 1]));
  }
  return static_cast<Index>(signs) >= 0;
}

static float dot(const float* a, const float* b, int64_t width) {
  return sum_of(width, [=](auto as, int64_t at) {
    return load<typename decltype(as)::type>(a + at) * load<typename decltype(as)::type>(b + at);
  });
}

static void update_sgd(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  const float rate = step.learning_rate;
  for (int64_t r = 0; r < count; ++r) {
    float* w = rows[r].weights;
    const float* g = rows[r].gradient;
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      store(w + at, load<V>(w + at) - rate * load<V>(g + at));
    });
  }
}

static void update_adagrad(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  const float rate = step.learning_rate;
  const float eps = step.eps;
  for (int64_t r = 0; r < count; ++r) {
    float* w = rows[r].weights;
    float* m = rows[r].momentum1;
    const float* gradient = rows[r].gradient;
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      const V g = load<V>(gradient + at);
      const V sum = load<V>(m + at) + g * g;
      store(m + at, sum);
      store(w + at, load<V>(w + at) - rate * (g / (square_root(sum) + eps)));  // one rounding less than (rate * g) /
    });
  }
}

// Moves rows at the rates that their states give; weight_decay_mode: 1 L2 (in the gradient), 2 and 5 decoupled,
// everything else none (spec/operators.md 6.5).
static inline void move_row(float* w, const float* g, float rate, int64_t width, const Step& step) {
  float keep = 1.0f;
  if (step.weight_decay_mode == 1) keep = 1.0f - rate * step.weight_decay;
  if (step.weight_decay_mode == 2 || step.weight_decay_mode == 5) keep = 1.0f - step.learning_rate * step.weight_decay;
  for_columns(width, [=](auto as, int64_t at) {
    using V = typename decltype(as)::type;
    store(w + at, keep * load<V>(w + at) - rate * load<V>(g + at));
  });
  if (step.max_norm > 0.0f) {
    const float norm = __builtin_sqrtf(dot(w, w, width));
    if (norm > step.max_norm) {
      const float shrink = step.max_norm / norm;
      for_columns(width,
                  [=](auto as, int64_t at) { store(w + at, load<typename decltype(as)::type>(w + at) * shrink); });
    }
  }
}

// sums[r] = (v0 + v1) + (v2 + v3) of the lanes of four[r].
static inline V4 sums_of_lanes(const V4 (&four)[4]) {
  typedef int Lane __attribute__((vector_size(16)));
  constexpr Lane low{0, 4, 1, 5};
  constexpr Lane high{2, 6, 3, 7};
  constexpr Lane first{0, 1, 4, 5};
  constexpr Lane second{2, 3, 6, 7};
  const V4 a = __builtin_shuffle(four[0], four[1], low);
  const V4 b = __builtin_shuffle(four[2], four[3], low);
  const V4 c = __builtin_shuffle(four[0], four[1], high);
  const V4 d = __builtin_shuffle(four[2], four[3], high);
  return (__builtin_shuffle(a, b, first) + __builtin_shuffle(a, b, second)) +
         (__builtin_shuffle(c, d, first) + __builtin_shuffle(c, d, second));
}

// The sums of squares of four rows' gradients, with what the L2 decay adds to them. Where a row stands among the four
// must not change its bits, so all of them pass through the same instructions: the compiler, which decides where a
// product and a sum become one, would choose for each copy of a loop's body.
template <bool decayed>
static inline V4 squares_of_four(const RowState* const (&rows)[4], int64_t width, float decay) {
  V4 four[4];
  int64_t column = 0;
#pragma GCC unroll 1
  for (int r = 0; r < 4; ++r) {
    const float* g = rows[r]->gradient;
    const float* w = rows[r]->weights;
    const auto square = [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      V value = load<V>(g + at);
      if constexpr (decayed) value += decay * load<V>(w + at);
      return value * value;
    };
    V16 wide{};
    for (column = 0; column + 16 <= width; column += 16) wide += square(As<V16>(), column);
    V8 eight = sum_of_halves<V8>(wide);
    if (column + 8 <= width) {
      eight += square(As<V8>(), column);
      column += 8;
    }
    four[r] = sum_of_halves<V4>(eight);
    if (column + 4 <= width) {
      four[r] += square(As<V4>(), column);
      column += 4;
    }
  }
  V4 sums = sums_of_lanes(four);
  for (; column < width; ++column) {
    V4 value{};
    V4 weight{};
    for (int r = 0; r < 4; ++r) value[r] = rows[r]->gradient[column];
    if constexpr (decayed) {
      for (int r = 0; r < 4; ++r) weight[r] = rows[r]->weights[column];
      value += decay * weight;
    }
    sums += value * value;
  }
  return sums;
}

// Three passes over some rows at a time: a row's sum, root and step wait for each other, those of other rows do not.
static void update_rowwise_adagrad(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  constexpr int64_t together = 32;
  const Step s = step;
  const float decay = s.weight_decay_mode == 1 ? s.weight_decay : 0.0f;
  const float share = 1.0f / static_cast<float>(width);
  float rates[together];
  for (int64_t first = 0; first < count; first += together) {
    const RowState* now = rows + first;
    const int64_t rest = count - first < together ? count - first : together;
    for (int64_t r = 0; r < rest; r += 4) {
      const int64_t last = rest - 1;  // stands for those that are missing
      const RowState* const four[4] = {now + r, now + (r + 1 < last ? r + 1 : last),
                                       now + (r + 2 < last ? r + 2 : last), now + (r + 3 < last ? r + 3 : last)};
      const V4 squares =
          decay == 0.0f ? squares_of_four<false>(four, width, 0.0f) : squares_of_four<true>(four, width, decay);
      V4 state{four[0]->momentum1[0], four[1]->momentum1[0], four[2]->momentum1[0], four[3]->momentum1[0]};
      state += squares * share;
      for (int i = 0; i < 4; ++i) four[i]->momentum1[0] = state[i];
      store(rates + r, state);
    }
    for_columns(rest, [&](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      store(rates + at, s.learning_rate / (square_root(load<V>(rates + at)) + s.eps));
    });
    for (int64_t r = 0; r < rest; ++r) move_row(now[r].weights, now[r].gradient, rates[r], width, s);
  }
}

static void update_adam(const RowState* rows, int64_t count, int64_t width, const Step& step) {
  const Step s = step;
  for (int64_t r = 0; r < count; ++r) {
    const RowState row = rows[r];
    for_columns(width, [=](auto as, int64_t at) {
      using V = typename decltype(as)::type;
      const V g = load<V>(row.gradient + at);
      const V w = load<V>(row.weights + at);
      const V first = s.beta1 * load<V>(row.momentum1 + at) + s.rest1 * g;
      const V second = s.beta2 * load<V>(row.momentum2 + at) + s.rest2 * g * g;
      store(row.momentum1 + at, first);
      store(row.momentum2 + at, second);
      const V direction = first * s.correction1 / (square_root(second * s.correction2) + s.eps);
      store(row.weights + at, w - s.learning_rate * (direction + s.weight_decay * w));
    });
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
                                &dot,
                                &valid<int32_t>,
                                &valid<int64_t>,
                                &ascending<int32_t, uint32_t>,
                                &ascending<int64_t, uint64_t>};
