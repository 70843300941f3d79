#include "ascendc/bulk.h"

#include <cstring>

#include "clones.h"

namespace twin {

namespace {

template <typename To, typename From>
inline To Bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "a reinterpretation keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

// 2^n r-polynomial with x = n ln 2 + r; 2^n in two factors, so that both ends of the range come out right.
inline float ExpOne(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: its last bits are the integer
  const float shifted = x * 1.44269504088896341f + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const uint32_t whole = Bits<uint32_t>(shifted) - Bits<uint32_t>(kRounder);
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(whole) >> 1);
  return p * Bits<float>((half + 127u) << 23) * Bits<float>((whole - half + 127u) << 23);
}

inline float WidenHalfOne(uint16_t bits) {
  // The exponent is rebased by a product, which is exact for subnormal numbers too.
  const uint32_t magnitude = (bits & 0x7fffu) << 13;
  const float scaled = Bits<float>(magnitude) * Bits<float>(0x77800000u);  // 2^112
  const uint32_t finite = Bits<uint32_t>(scaled);
  const uint32_t value = (bits & 0x7c00u) == 0x7c00u ? (magnitude | 0x7f800000u) : finite;
  return Bits<float>(value | (bits & 0x8000u) << 16);
}

inline uint16_t NarrowHalfOne(float value) {
  const uint32_t bits = Bits<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14 an addition rounds to the spacing of subnormal halves; above, the mantissa is rounded in place.
  const uint32_t small = Bits<uint32_t>(Bits<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t result = magnitude < 0x38800000u ? small : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  return static_cast<uint16_t>(sign | result);
}

inline uint16_t NarrowBfloat16One(float value) {
  const uint32_t bits = Bits<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

}  // namespace

FOR_EACH_CPU void ExpFloats(const float* from, float* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = ExpOne(from[i]);
  }
}

FOR_EACH_CPU void WidenHalf(const uint16_t* from, float* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = WidenHalfOne(from[i]);
  }
}

FOR_EACH_CPU void WidenBfloat16(const uint16_t* from, float* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = Bits<float>(static_cast<uint32_t>(from[i]) << 16);
  }
}

FOR_EACH_CPU void NarrowHalf(const float* from, uint16_t* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = NarrowHalfOne(from[i]);
  }
}

FOR_EACH_CPU void NarrowBfloat16(const float* from, uint16_t* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = NarrowBfloat16One(from[i]);
  }
}

}  // namespace twin
