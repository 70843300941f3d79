#pragma once

#include <cstdint>
#include <cstring>

#include "common/mix.h"
#include "row_math/row_kernels.h"

// Stochastic rounding of fp32 to 16 bits: up with the probability that the lost bits say. The bits drawn depend on a
// key only, so results do not depend on threads.
namespace hybrid_torchrec {

class Rounding {
 public:
  explicit Rounding(uint64_t key) : key_(key) {}

  template <typename Row>
  void narrow(const float* from, Row* to, int64_t width) const {
    for (int64_t i = 0; i < width; i += 4) {
      uint64_t bits = mix64(key_ + kGoldenGamma * static_cast<uint64_t>(i / 4 + 1));
      for (int64_t k = i; k < width && k < i + 4; ++k, bits >>= 16) {
        to[k] = round(from[k], static_cast<uint32_t>(bits & 0xffffu), static_cast<const Row*>(nullptr));
      }
    }
  }

 private:
  static uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  static bool finite(uint32_t bits) { return (bits & 0x7f800000u) != 0x7f800000u; }

  static row_math::Bfloat16 round(float value, uint32_t random, const row_math::Bfloat16*) {
    const uint32_t bits = bits_of(value);
    if (finite(bits)) return {static_cast<uint16_t>((bits + random) >> 16)};
    // Not a number stays one also where its low bits go.
    return {static_cast<uint16_t>((bits >> 16) | ((bits & 0x7fffffu) != 0 ? 0x40u : 0u))};
  }

  // A half has 13 bits less; below 2^-14 its steps stay 2^-24.
  static row_math::Half round(float value, uint32_t random, const row_math::Half*) {
    const uint32_t bits = bits_of(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const auto make = [sign](uint32_t rest) { return row_math::Half{static_cast<uint16_t>(sign | rest)}; };
    if (!finite(bits)) return make(0x7c00u | ((magnitude & 0x7fffffu) != 0 ? 0x200u : 0u));
    if (magnitude >= 0x38800000u) {  // a normal half
      const uint32_t rounded = magnitude + (random & 0x1fffu);
      return rounded >= 0x47800000u ? make(0x7c00u) : make((rounded - 0x38000000u) >> 13);
    }
    const uint32_t exponent = magnitude >> 23;
    if (exponent < 87) return make(0);  // below 2^-40, under the drawn bits' resolution
    const uint64_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t shift = 126u - exponent;  // 14 to 39; the value is mantissa * 2^-24 / 2^shift
    const uint64_t drawn = shift >= 16 ? static_cast<uint64_t>(random) << (shift - 16) : random >> (16 - shift);
    return make(static_cast<uint32_t>((mantissa + drawn) >> shift));
  }

  uint64_t key_;
};

template <>
inline void Rounding::narrow<float>(const float* from, float* to, int64_t width) const {
  std::memcpy(to, from, static_cast<size_t>(width) * sizeof(float));
}

}  // namespace hybrid_torchrec
