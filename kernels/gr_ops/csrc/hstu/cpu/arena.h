#pragma once

#include <cstddef>
#include <cstdint>

namespace gr_ops::hstu {
namespace {

// Cuts arrays out of one block of scratch memory; over a null block it only counts.
class Arena {
 public:
  explicit Arena(void* block) : block_(static_cast<char*>(block)) {}

  template <typename T>
  T* take(size_t count) {
    char* start = block_ == nullptr ? nullptr : block_ + used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(start);
  }

  size_t used() const { return used_; }

 private:
  char* block_;
  size_t used_ = 0;
};

}  // namespace
}  // namespace gr_ops::hstu
