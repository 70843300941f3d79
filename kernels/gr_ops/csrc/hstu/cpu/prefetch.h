#pragma once

#include <cstddef>

namespace gr_ops::hstu {
namespace {

// Asks for memory that is used behind a product, some lines after each piece of the product: rows that are read or
// written in one go afterwards would have the core wait, and so would requests made all at once, since a core has only
// so many under way. Into the second cache: the first one is full of what is multiplied.
class Prefetch {
 public:
  // `bytes` of each of so many rows, `stride` bytes apart.
  void read(const void* start, ptrdiff_t bytes, ptrdiff_t rows = 1, ptrdiff_t stride = 0) {
    add(start, bytes, rows, stride, false);
  }
  void write(void* start, ptrdiff_t bytes, ptrdiff_t rows = 1, ptrdiff_t stride = 0) {
    add(start, bytes, rows, stride, true);
  }

  static constexpr int kLines = 16;    // behind a piece of a product
  static constexpr int kRowLines = 4;  // behind a row of what is around a product

  // Not inlined: it stands behind dozens of kinds of pieces, and one call is nothing beside each.
  __attribute__((noinline)) void step(int lines = kLines) {
    while (lines > 0 && part_ < count_) {
      Part& part = parts_[part_];
      const ptrdiff_t left = (part.bytes - part.at + kLine - 1) / kLine;
      const int some = left < lines ? static_cast<int>(left) : lines;
      const char* from = part.row + part.at;
      // Each line by itself, as a counter in memory, would wait for the one before.
      if (part.write) {
        for (int i = 0; i < some; ++i) __builtin_prefetch(from + i * kLine, 1, 2);
      } else {
        for (int i = 0; i < some; ++i) __builtin_prefetch(from + i * kLine, 0, 2);
      }
      lines -= some;
      part.at += some * kLine;
      if (part.at < part.bytes) return;
      part.at = 0;
      part.row += part.stride;
      if (--part.rows == 0) ++part_;
    }
  }

 private:
  static constexpr ptrdiff_t kLine = 64;
  static constexpr int kParts = 8;  // more are not asked for

  struct Part {
    const char* row;
    ptrdiff_t at, bytes, rows, stride;
    bool write;
  };

  void add(const void* start, ptrdiff_t bytes, ptrdiff_t rows, ptrdiff_t stride, bool write) {
    if (start == nullptr || bytes <= 0 || rows <= 0 || count_ == kParts) return;
    const bool dense = stride == bytes;
    parts_[count_++] = {
        static_cast<const char*>(start), 0, dense ? bytes * rows : bytes, dense ? 1 : rows, stride, write};
  }

  Part parts_[kParts];
  int count_ = 0, part_ = 0;
};

}  // namespace
}  // namespace gr_ops::hstu
