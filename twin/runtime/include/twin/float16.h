// IEEE half and bfloat16 to and from float, rounding to nearest even.
#pragma once
#include <cstdint>
#include <cstring>

namespace twin {
inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t BitsFromFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

struct Half {
  uint16_t bits;

  static float ToFloat(Half half) {
    const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000U) << 16;
    const uint32_t exponent = (half.bits >> 10) & 0x1fU;
    const uint32_t fraction = half.bits & 0x3ffU;
    if (exponent == 0x1f) {
      return FloatFromBits(sign | 0x7f800000U | (fraction << 13));
    }
    if (exponent == 0) {  // zero and subnormals: fraction x 2^-24, exact in float
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return FloatFromBits(sign | BitsFromFloat(magnitude));
    }
    return FloatFromBits(sign | ((exponent + 112) << 23) | (fraction << 13));
  }

  static Half FromFloat(float value) {
    const uint32_t bits = BitsFromFloat(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
    const uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) {
      return {static_cast<uint16_t>(sign | 0x7e00U)};
    }
    if (magnitude >= 0x477ff000U) {  // 65520 and above rounds to infinity
      return {static_cast<uint16_t>(sign | 0x7c00U)};
    }
    if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 leaves fraction x 2^-24, rounded by the FPU
      const float shifted = FloatFromBits(magnitude) + 0.5F;
      return {static_cast<uint16_t>(sign | (BitsFromFloat(shifted) - 0x3f000000U))};
    }
    const uint32_t odd = (magnitude >> 13) & 1U;
    return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13))};
  }
};

struct BFloat16 {
  uint16_t bits;

  static float ToFloat(BFloat16 value) { return FloatFromBits(static_cast<uint32_t>(value.bits) << 16); }

  static BFloat16 FromFloat(float value) {
    const uint32_t bits = BitsFromFloat(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
      return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
    }
    return {static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
  }
};
}  // namespace twin
