// fp16 conversions by the integer arithmetic of half_software.inl.

// Shifted to its place, a number's exponent is 112 too low; that of infinity and of what is no number, twice. Numbers
// below the smallest normal one have no exponent: they are what 2^-14 is exceeded by.
static inline V4 half_to_vector(const Half* from, As<V4>) {
  using Words = Lanes<V4>::Words;
  Lanes<V4>::Shorts shorts;
  __builtin_memcpy(&shorts, from, sizeof(shorts));
  const Words bits = __builtin_convertvector(shorts, Words);
  const Words magnitude = bits & 0x7fffu;
  const Words wide = (magnitude << 13) + (112u << 23);
  const Words above = (Words)(magnitude > 0x7bffu) & (112u << 23);
  const Words small = (Words)(magnitude < 0x400u);
  const Words tiny = (Words)((V4)(wide + (1u << 23)) - 0x1p-14f);
  return (V4)((tiny & small) | ((wide + above) & ~small) | (bits & 0x8000u) << 16);
}

static inline void float8_to_half(const float* from, Half* to) {
  for (int i = 0; i < 8; ++i) to[i] = float_to_half(from[i]);
}
