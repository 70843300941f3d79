// fp16 conversions by integer arithmetic, for processors without an instruction for them.

static inline float half_to_float(Half half) {
  const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000u) << 16;
  const uint32_t exponent = (half.bits >> 10) & 0x1fu;
  uint32_t mantissa = half.bits & 0x3ffu;
  uint32_t bits;
  if (exponent == 0x1fu) {
    bits = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else if (mantissa == 0) {
    bits = sign;
  } else {
    int shift = 0;
    for (; (mantissa & 0x400u) == 0; ++shift) mantissa <<= 1;
    bits = sign | ((113u - static_cast<uint32_t>(shift)) << 23) | ((mantissa & 0x3ffu) << 13);
  }
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

// Round to nearest even.
static inline Half float_to_half(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto make = [sign](uint32_t rest) { return Half{static_cast<uint16_t>(sign | rest)}; };
  if (magnitude > 0x7f800000u) return make(0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return make(0x7c00u);  // 65520 and above round to infinity
  if (magnitude >= 0x38800000u) {                      // a normal half
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return make((rounded - 0x38000000u) >> 13);
  }
  if (magnitude <= 0x33000000u) return make(0);  // at most half of the smallest subnormal
  const uint32_t shift = 126u - (magnitude >> 23);
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t kept = mantissa >> shift;
  const uint32_t lost = mantissa & ((1u << shift) - 1u);
  const uint32_t middle = 1u << (shift - 1u);
  return make(kept + ((lost > middle || (lost == middle && (kept & 1u) != 0)) ? 1u : 0u));
}
