// Square roots by the baseline of the architecture.
static inline float square_root(float value) { return __builtin_sqrtf(value); }

static inline V4 square_root(const V4& value) {
  float lanes[4];
  __builtin_memcpy(lanes, &value, sizeof(value));
  for (float& lane : lanes) lane = __builtin_sqrtf(lane);  // one instruction for all four
  V4 roots;
  __builtin_memcpy(&roots, lanes, sizeof(roots));
  return roots;
}
