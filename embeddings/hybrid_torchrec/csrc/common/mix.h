#pragma once

#include <cstdint>

namespace hybrid_torchrec {

// The finaliser of SplitMix64: a bijection of 64-bit words in which every input bit changes half of the output bits.
// The distribution of ids over ranks and the initialisers use it too (hybrid_torchrec/hashing.py).
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15u;

// A word that depends on all arguments; the order of arguments matters.
inline uint64_t mix64(uint64_t a, uint64_t b) { return mix64(mix64(a + kGoldenGamma) ^ (b + kGoldenGamma)); }

}  // namespace hybrid_torchrec
