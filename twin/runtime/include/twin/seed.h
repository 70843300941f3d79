// One CPU seed from an NPU generator's (seed, Philox offset).
#pragma once
#include <cstdint>

namespace twin {

// splitmix64's finaliser: neighbouring values give unrelated ones.
inline uint64_t MixBits(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

inline uint64_t CpuSeed(uint64_t seed, uint64_t offset) { return MixBits(MixBits(seed) ^ offset); }

}  // namespace twin
