#pragma once

#include <cstdint>
#include <cstring>

namespace hybrid_torchrec {

// XXH64 (the xxHash specification, version 0.2.0) with seed 0, of data that comes in pieces. Little-endian machines.
class Xxh64 {
 public:
  void update(const void* data, size_t size) {
    const auto* next = static_cast<const unsigned char*>(data);
    total_ += size;
    if (held_ > 0) {
      const size_t some = size < kStripe - held_ ? size : kStripe - held_;
      std::memcpy(tail_ + held_, next, some);
      held_ += some;
      next += some;
      size -= some;
      if (held_ < kStripe) return;
      stripe(tail_);
    }
    for (; size >= kStripe; next += kStripe, size -= kStripe) stripe(next);
    std::memcpy(tail_, next, size);
    held_ = size;
  }

  uint64_t digest() const {
    uint64_t hash = kPrime5;
    if (total_ >= kStripe) {
      hash = rotated(lanes_[0], 1) + rotated(lanes_[1], 7) + rotated(lanes_[2], 12) + rotated(lanes_[3], 18);
      for (const uint64_t lane : lanes_) hash = (hash ^ round(0, lane)) * kPrime1 + kPrime4;
    }
    hash += total_;
    size_t at = 0;
    for (; at + 8 <= held_; at += 8) {
      hash = rotated(hash ^ round(0, word<uint64_t>(tail_ + at)), 27) * kPrime1 + kPrime4;
    }
    if (at + 4 <= held_) {
      hash = rotated(hash ^ (word<uint32_t>(tail_ + at) * kPrime1), 23) * kPrime2 + kPrime3;
      at += 4;
    }
    for (; at < held_; ++at) hash = rotated(hash ^ (tail_[at] * kPrime5), 11) * kPrime1;
    hash = (hash ^ (hash >> 33)) * kPrime2;
    hash = (hash ^ (hash >> 29)) * kPrime3;
    return hash ^ (hash >> 32);
  }

 private:
  static constexpr size_t kStripe = 32;
  static constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87u;
  static constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
  static constexpr uint64_t kPrime3 = 0x165667B19E3779F9u;
  static constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
  static constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5u;

  template <typename Word>
  static uint64_t word(const unsigned char* bytes) {
    Word value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  static uint64_t rotated(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }
  static uint64_t round(uint64_t lane, uint64_t input) { return rotated(lane + input * kPrime2, 31) * kPrime1; }
  void stripe(const unsigned char* bytes) {
    for (int k = 0; k < 4; ++k) lanes_[k] = round(lanes_[k], word<uint64_t>(bytes + 8 * k));
  }

  uint64_t lanes_[4] = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  uint64_t total_ = 0;
  unsigned char tail_[kStripe] = {};
  size_t held_ = 0;
};

}  // namespace hybrid_torchrec
