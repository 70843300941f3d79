// fp32 to 16 bits, to one of the two neighbours: a part of their distance is added to the magnitude, which is then cut.
// Included once per instruction set, after columns.inl.

// What is drawn is cut to the bits that a number of the type loses, in units of the last place of fp32, so that the sum
// is exact. Below the type's smallest normal number its steps do not get finer.
template <typename Row>
struct Cut;
template <>
struct Cut<Half> {
  static constexpr uint32_t kUnused = 3;                                    // of 16 drawn bits
  static constexpr uint32_t kLowest = 0x38800000u, kHighest = 0x47000000u;  // 2^-14, 2^15
};
template <>
struct Cut<Bfloat16> {
  static constexpr uint32_t kUnused = 0;
  static constexpr uint32_t kLowest = 0x00800000u, kHighest = 0x7f000000u;  // 2^-126, 2^127
};

template <typename Row>
static inline float dithered(float value, uint32_t drawn) {
  const uint32_t bits = bits_as<uint32_t>(value);
  uint32_t power = bits & 0x7f800000u;
  power = power < Cut<Row>::kLowest ? Cut<Row>::kLowest : power;
  power = power > Cut<Row>::kHighest ? Cut<Row>::kHighest : power;
  const float part = static_cast<float>(static_cast<int32_t>(drawn >> Cut<Row>::kUnused)) * 0x1p-23f;
  const float sum = bits_as<float>(bits & 0x7fffffffu) + part * bits_as<float>(power);
  return bits_as<float>(bits_as<uint32_t>(sum) | (bits & 0x80000000u));
}

static inline Bfloat16 cut_to(float value, const Bfloat16*) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t quiet = (bits & 0x7fffffffu) > 0x7f800000u ? 0x40u : 0u;
  return {static_cast<uint16_t>(bits >> 16 | quiet)};
}

// Towards zero; infinite from 2^16 on.
static inline Half cut_to(float value, const Half*) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t result;
  if (magnitude >= 0x47800000u) {
    result = 0x7c00u | (magnitude > 0x7f800000u ? 0x200u : 0u);
  } else if (magnitude >= 0x38800000u) {
    result = (magnitude - 0x38000000u) >> 13;
  } else {
    result = static_cast<uint32_t>(static_cast<int32_t>(bits_as<float>(magnitude) * 0x1p24f));
  }
  return {static_cast<uint16_t>(sign | result)};
}

template <typename Row>
static void round_by_chance(const float* from, Row* to, int64_t width, const RowDraws& draws) {
  const uint32_t factor = draws.factor;
  const uint32_t term = draws.term;
  const uint32_t last = draws.last;
  for (int64_t i = 0; i < width; ++i) {
    const uint32_t hash = (((factor * draws.factors[i]) >> kProductShift) + draws.terms[i] + term) & 0x7fffu;
    const uint32_t drawn = (((hash * hash) >> kSquareShift) + draws.lasts[i] + last) & 0xffffu;
    to[i] = cut_to(dithered<Row>(from[i], drawn), static_cast<const Row*>(nullptr));
  }
}

static void round_by_chance(const float* from, float* to, int64_t width, const RowDraws&) {
  __builtin_memcpy(to, from, static_cast<uint64_t>(width) * sizeof(float));
}
