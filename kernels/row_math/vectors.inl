// Vectors of 4, 8 and 16 floats. ROW_MATH_LANES: floats of the set's registers. A longer vector is a pair of shorter
// ones: GCC has the halves of a vector without a register in memory, and every sum goes through the stack (lookups took
// 2 to 4 times as long with AVX2).
typedef float V4 __attribute__((vector_size(16)));

template <typename V>
struct Pair {
  V low;
  V high;
};

#if ROW_MATH_LANES >= 8
typedef float V8 __attribute__((vector_size(32)));
#else
using V8 = Pair<V4>;
#endif
#if ROW_MATH_LANES >= 16
typedef float V16 __attribute__((vector_size(64)));
#else
using V16 = Pair<V8>;
#endif

// A vector type as an argument.
template <typename V>
struct As {
  using type = V;
};

template <typename V>
struct Lanes {
  static constexpr int kCount = sizeof(V) / sizeof(float);
  typedef uint32_t Words __attribute__((vector_size(sizeof(V))));
  typedef uint16_t Shorts __attribute__((vector_size(sizeof(V) / 2)));
};
template <>
struct Lanes<float> {
  static constexpr int kCount = 1;
};
template <typename V>
struct Lanes<Pair<V>> {
  static constexpr int kCount = 2 * Lanes<V>::kCount;
  using Words = Pair<typename Lanes<V>::Words>;
};

template <typename V>
struct ElementOf {
  using type = decltype(+V{}[0]);
};
template <typename V>
struct ElementOf<Pair<V>> : ElementOf<V> {};
template <typename V>
using Element = typename ElementOf<V>::type;

template <typename V>
constexpr bool kIsPair = false;
template <typename V>
constexpr bool kIsPair<Pair<V>> = true;

#define ROW_MATH_OF_PAIRS(OPERATOR)                                                \
  template <typename V>                                                            \
  static inline Pair<V> operator OPERATOR(const Pair<V>& a, const Pair<V>& b) {    \
    return {a.low OPERATOR b.low, a.high OPERATOR b.high};                         \
  }                                                                                \
  template <typename V>                                                            \
  static inline Pair<V> operator OPERATOR(const Pair<V>& a, const Element<V>& b) { \
    return {a.low OPERATOR b, a.high OPERATOR b};                                  \
  }                                                                                \
  template <typename V>                                                            \
  static inline Pair<V> operator OPERATOR(const Element<V>& a, const Pair<V>& b) { \
    return {a OPERATOR b.low, a OPERATOR b.high};                                  \
  }
ROW_MATH_OF_PAIRS(+)
ROW_MATH_OF_PAIRS(-)
ROW_MATH_OF_PAIRS(*)
ROW_MATH_OF_PAIRS(/)
ROW_MATH_OF_PAIRS(&)
ROW_MATH_OF_PAIRS(|)
ROW_MATH_OF_PAIRS(<<)
ROW_MATH_OF_PAIRS(>>)
#undef ROW_MATH_OF_PAIRS

template <typename V, typename Other>
static inline Pair<V>& operator+=(Pair<V>& a, const Other& b) {
  return a = a + b;
}

template <typename V, typename Other>
static inline Pair<V>& operator*=(Pair<V>& a, const Other& b) {
  return a = a * b;
}

template <typename To, typename From>
static inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  if constexpr (kIsPair<To>) {
    return {bits_as<decltype(To::low)>(from.low), bits_as<decltype(To::high)>(from.high)};
  } else {
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
  }
}
