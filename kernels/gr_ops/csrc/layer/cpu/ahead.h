#pragma once

#include <cstddef>

namespace gr_ops::layer {
namespace {

// Asks for memory that is used behind a product, part by part while it multiplies: rows that are read or written in one
// go afterwards would have a core wait.
class Ahead {
 public:
  void read(const void* start, ptrdiff_t bytes) { add(start, bytes, false); }
  void write(void* start, ptrdiff_t bytes) { add(start, bytes, true); }

  void step() {
    for (int left = kLines; left > 0 && part_ < count_; --left) {
      Part& part = parts_[part_];
      if (part.write) {
        __builtin_prefetch(part.start, 1, 3);
      } else {
        __builtin_prefetch(part.start, 0, 3);
      }
      part.start += 64;
      if (part.start >= part.end) ++part_;
    }
  }

 private:
  static constexpr int kLines = 24;  // a step
  static constexpr int kParts = 8;   // more are not asked for

  struct Part {
    const char *start, *end;
    bool write;
  };

  void add(const void* start, ptrdiff_t bytes, bool write) {
    if (count_ == kParts) return;
    const auto* from = static_cast<const char*>(start);
    parts_[count_++] = {from, from + bytes, write};
  }

  Part parts_[kParts];
  int count_ = 0, part_ = 0;
};

}  // namespace
}  // namespace gr_ops::layer
