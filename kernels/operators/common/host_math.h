// Integers of op_host. The toolkit compiles op_host as C++11, whose standard library has neither clamp nor gcd.
#pragma once
#include <cstdint>

namespace host {

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline int64_t Clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

inline int64_t GreatestCommonDivisor(int64_t a, int64_t b) { return b == 0 ? a : GreatestCommonDivisor(b, a % b); }

}  // namespace host
