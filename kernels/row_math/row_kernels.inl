// Pooling, conversions and checks of rows. Included once per instruction set, after columns.inl, optimizer_steps.inl
// and stochastic_rounding.inl.

// Asks for a row, into the second cache: a core waits for 16 lines of the first at a time, and for 48 of the second.
// (Rows of 256 and 512 bytes come 1.2 times as fast; measured on a Xeon with AVX512-FP16.)
template <unsigned kBytes>
static inline void fetch_row(const void* base, uintptr_t distance) {
  const char* row = reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(base) + distance);
  for (unsigned line = 0; line < kBytes; line += 64) __builtin_prefetch(row + line, 0, 2);
}

// Columns of a pass, at most: their sums have half of the registers, or a quarter with AVX-512.
#if defined(__aarch64__)
constexpr int kSumColumns = ROW_MATH_LANES * 16;
#else
constexpr int kSumColumns = ROW_MATH_LANES * 8;
#endif

// kVectors vectors of columns of every bag: the sums stay in registers while the rows pass by. Indices before
// `readable` may be looked at.
template <typename V, int kVectors, bool kWeighted, typename Row, typename Index>
static inline void pool_columns(const Row* base, const Index* indices, int64_t readable, const int64_t* offsets,
                                int64_t bags, int64_t stride, const float* weights, bool mean, float* out,
                                int64_t out_stride) {
  constexpr int kLanes = Lanes<V>::kCount;
  constexpr int64_t kAhead = 32;  // rows; measured
  int64_t k = offsets[0];
  for (int64_t bag = 0; bag < bags; ++bag, out += out_stride) {
    const int64_t start = k;
    const int64_t end = offsets[bag + 1];
    V sums[kVectors];
    for (int c = 0; c < kVectors; ++c) sums[c] = V{};
    for (; k < end; ++k) {
      if (k < readable - kAhead) {
        fetch_row<kVectors * kLanes * sizeof(Row)>(
            base, static_cast<uintptr_t>(indices[k + kAhead]) * static_cast<uintptr_t>(stride) * sizeof(Row));
      }
      const Row* row = base + static_cast<int64_t>(indices[k]) * stride;
      for (int c = 0; c < kVectors; ++c) {
        const V values = load<V>(row + c * kLanes);
        if constexpr (kWeighted) {
          sums[c] += values * weights[k];
        } else {
          sums[c] += values;
        }
      }
    }
    const float scale = mean && end > start + 1 ? 1.0f / static_cast<float>(end - start) : 1.0f;
    for (int c = 0; c < kVectors; ++c) {
      if (mean) sums[c] *= scale;
      store(out + c * kLanes, sums[c]);
    }
  }
}

template <bool kWeighted, typename Row, typename Index>
static inline void pool_rows(const Row* base, const Index* indices, int64_t readable, const int64_t* offsets,
                             int64_t bags, int64_t stride, int64_t width, const float* weights, bool mean, float* out,
                             int64_t out_stride) {
  int64_t column = 0;
#define ROW_MATH_POOL(V, VECTORS)                                                                                 \
  if constexpr (VECTORS * Lanes<V>::kCount <= kSumColumns) {                                                      \
    for (; column + VECTORS * Lanes<V>::kCount <= width; column += VECTORS * Lanes<V>::kCount) {                  \
      pool_columns<V, VECTORS, kWeighted>(base + column, indices, readable, offsets, bags, stride, weights, mean, \
                                          out + column, out_stride);                                              \
    }                                                                                                             \
  }
  ROW_MATH_POOL(V16, 8)
  ROW_MATH_POOL(V16, 4)
  ROW_MATH_POOL(V16, 2)
  ROW_MATH_POOL(V16, 1)
  ROW_MATH_POOL(V8, 1)
  ROW_MATH_POOL(V4, 1)
  ROW_MATH_POOL(float, 1)
#undef ROW_MATH_POOL
}

// Of rows that take several passes, so many at a time that the first cache and its pages hold them.
template <bool kWeighted, typename Row, typename Index>
static inline void pool_bags(const Row* base, const Index* indices, const int64_t* offsets, int64_t bags,
                             int64_t stride, int64_t width, const float* weights, bool mean, float* out,
                             int64_t out_stride) {
  constexpr int64_t kTogether = 48;
  const bool one_pass = width <= kSumColumns && (width & (width - 1)) == 0;
  const int64_t readable = offsets[bags];
  for (int64_t first = 0; first < bags;) {
    int64_t end = one_pass ? bags : first + 1;
    while (end < bags && offsets[end + 1] - offsets[first] <= kTogether) ++end;
    pool_rows<kWeighted>(base, indices, readable, offsets + first, end - first, stride, width, weights, mean,
                         out + first * out_stride, out_stride);
    first = end;
  }
}

template <typename Row, typename Index>
static void pool(const Row* base, const Index* indices, const int64_t* offsets, int64_t bags, int64_t stride,
                 int64_t width, const float* weights, bool mean, float* out, int64_t out_stride) {
  if (weights != nullptr) {
    pool_bags<true>(base, indices, offsets, bags, stride, width, weights, mean, out, out_stride);
  } else {
    pool_bags<false>(base, indices, offsets, bags, stride, width, weights, mean, out, out_stride);
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

template <typename Row>
constexpr RowFunctions<Row> functions() {
  return {&pool<Row, int32_t>, &pool<Row, int64_t>, &widen<Row>, &narrow, &round_by_chance};
}

extern const RowKernels kernels;
constexpr RowKernels kernels = {functions<float>(),
                                functions<Half>(),
                                functions<Bfloat16>(),
                                updates(),
                                &decay_gradients,
                                &dot,
                                &valid<int32_t>,
                                &valid<int64_t>,
                                &ascending<int32_t, uint32_t>,
                                &ascending<int64_t, uint64_t>};
