#include "common/moves.h"

#include <cstring>

#include "common/parallel.h"
#include "common/vector_clones.h"

namespace gr_ops {
namespace {

typedef uint64_t Block __attribute__((vector_size(64)));
constexpr int64_t kBlock = sizeof(Block);
constexpr int64_t kLong = 8192;  // from here on memcpy

#define GR_OPS_INLINE static inline __attribute__((always_inline))

GR_OPS_INLINE void move_block(char* to, const char* from) {
  Block block;
  std::memcpy(&block, from, sizeof(block));
  std::memcpy(to, &block, sizeof(block));
}

// From `to` to the next whole block of memory.
GR_OPS_INLINE int64_t to_boundary(const char* to) {
  return kBlock - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(kBlock));
}

GR_OPS_INLINE void copy_blocks(char* to, const char* from, int64_t bytes) {
  move_block(to, from);
  for (int64_t at = to_boundary(to); at < bytes; at += kBlock) move_block(to + at, from + at);
}

GR_OPS_INLINE void copy(char* to, const char* from, int64_t bytes) {
  if (bytes <= 2 * kBlock) {
    move_block(to, from);
    move_block(to + kBlock, from + kBlock);
  } else if (bytes < kLong) {
    copy_blocks(to, from, bytes);
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

// Short stretches are used up before the first one comes from memory.
constexpr size_t ahead_of(int64_t bytes) { return bytes < 256 ? 24 : 8; }

}  // namespace

Padding::Padding(int64_t bits, int64_t width) : zero_(bits == 0) {
  for (int64_t at = 0; at < kBlock; at += width) std::memcpy(block_ + at, &bits, static_cast<size_t>(width));
}

void Padding::fill(char* to, int64_t bytes) const {
  if (zero_) {
    std::memset(to, 0, static_cast<size_t>(bytes));
    return;
  }
  for (int64_t at = 0; at < bytes; at += kBlock) {
    std::memcpy(to + at, block_, static_cast<size_t>(std::min(kBlock, bytes - at)));
  }
}

GR_OPS_VECTOR_CLONES
void pad_line_spilling(char* to, int64_t line_bytes, const char* from, int64_t bytes, const Padding& padding) {
  if (bytes >= kLong) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else {
    copy_blocks(to, from, bytes);
  }
  Block block;
  std::memcpy(&block, padding.block(), sizeof(block));
  char* rest = to + bytes;
  std::memcpy(rest, &block, sizeof(block));
  for (int64_t at = to_boundary(rest); at < line_bytes - bytes; at += kBlock) {
    std::memcpy(rest + at, &block, sizeof(block));
  }
}

GR_OPS_VECTOR_CLONES
void copy_spilling(char* to, const char* from, int64_t bytes) { copy(to, from, bytes); }

GR_OPS_VECTOR_CLONES
void copy_stretches_spilling(char* to, const char* from, const char* from_end, const int64_t* sources,
                             const int64_t* rows, size_t first, size_t end, size_t stretches, int64_t row_bytes) {
  const size_t ahead = ahead_of((rows[end] - rows[first]) * row_bytes / static_cast<int64_t>(end - first));
  for (size_t p = first; p < end; ++p) {
    if (const size_t next = p + ahead; next < stretches) {
      prefetch_stretch(from + sources[next] * row_bytes, (rows[next + 1] - rows[next]) * row_bytes);
    }
    const int64_t bytes = (rows[p + 1] - rows[p]) * row_bytes;
    const char* stretch = from + sources[p] * row_bytes;
    if (from_end - stretch >= bytes + kSpill) {
      copy(to, stretch, bytes);
    } else if (bytes > 0) {
      std::memcpy(to, stretch, static_cast<size_t>(bytes));
    }
    to += bytes;
  }
}

}  // namespace gr_ops
