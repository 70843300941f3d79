// Memory that starts at a line of L2, so that a launch's counts repeat.
#pragma once
#include <new>
#include <vector>

#include "l2_cache.h"

template <typename T>
struct OnLines {
  using value_type = T;
  OnLines() = default;
  template <typename U>
  OnLines(const OnLines<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, kLine); }
  bool operator==(const OnLines&) const { return true; }
  bool operator!=(const OnLines&) const { return false; }
  static constexpr std::align_val_t kLine{twin::kL2Line};
};
template <typename T>
using Memory = std::vector<T, OnLines<T>>;
