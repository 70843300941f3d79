#include "common/moves.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "common/prefetch.h"
#include "common/vector_clones.h"

namespace gr_ops {
namespace {

constexpr int64_t kBlock = 64;
// Bytes of a segment: how it ends no longer matters, and memcpy and memset write it by an instruction that fetches no
// line only to overwrite it.
constexpr int64_t kLong = 8192;
// From here on segments go by four blocks a step: those of 800 bytes take 0.95 of the time with it that they take with
// two, those of 200 bytes 0.97, those of 80 bytes 1.1, and of 16 bytes 1.3.
constexpr int64_t kFourBlocks = 192;

#define GR_OPS_ALWAYS_INLINE inline __attribute__((always_inline))
#define GR_OPS_INLINE static GR_OPS_ALWAYS_INLINE

// A block in registers of so many bytes: the compiler takes a vector that the set has none for through the stack.
template <int64_t kRegister>
struct Block {
  typedef uint64_t Register __attribute__((vector_size(kRegister)));
  static constexpr int64_t kCount = kBlock / kRegister;

  GR_OPS_ALWAYS_INLINE explicit Block(const char* from) {
    for (int64_t i = 0; i < kCount; ++i) std::memcpy(&registers[i], from + i * kRegister, kRegister);
  }
  GR_OPS_ALWAYS_INLINE void store(char* to) const {
    for (int64_t i = 0; i < kCount; ++i) std::memcpy(to + i * kRegister, &registers[i], kRegister);
  }

  Register registers[kCount];
};

template <int64_t kRegister>
GR_OPS_INLINE void move_block(char* to, const char* from) {
  Block<kRegister>(from).store(to);
}

// From `to` to the next whole block of memory.
GR_OPS_INLINE int64_t to_boundary(const char* to) {
  return kBlock - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(kBlock));
}

template <int64_t kRegister>
GR_OPS_INLINE void copy_blocks(char* to, const char* from, int64_t bytes) {
  move_block<kRegister>(to, from);
  for (int64_t at = to_boundary(to); at < bytes; at += kBlock) {
    fetch_to_write(to + at, kBlock);
    move_block<kRegister>(to + at, from + at);
  }
}

template <int64_t kRegister>
GR_OPS_INLINE void copy_segment_by(char* to, const char* from, int64_t bytes) {
  if (bytes <= 2 * kBlock) {
    move_block<kRegister>(to, from);
    move_block<kRegister>(to + kBlock, from + kBlock);
  } else if (bytes < kLong) {
    copy_blocks<kRegister>(to, from, bytes);
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

// Short segments are used up before the first one comes from memory.
constexpr int64_t ahead_of(int64_t bytes) { return bytes < 256 ? 24 : 8; }

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

namespace {

template <int64_t kRegister>
GR_OPS_INLINE void pad_line_by(char* to, int64_t line_bytes, const char* from, int64_t bytes, const Padding& padding) {
  if (bytes < kLong) {
    copy_blocks<kRegister>(to, from, bytes);
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  char* rest = to + bytes;
  if (line_bytes - bytes >= kLong) {
    padding.fill(rest, line_bytes - bytes);
    return;
  }
  const Block<kRegister> block(padding.block());
  block.store(rest);
  for (int64_t at = to_boundary(rest); at < line_bytes - bytes; at += kBlock) {
    fetch_to_write(rest + at, kBlock);
    block.store(rest + at);
  }
}

GR_OPS_BY_REGISTER(pad_line, (char* to, int64_t line_bytes, const char* from, int64_t bytes, const Padding& padding),
                   to, line_bytes, from, bytes, padding)

}  // namespace

void pad_line_spilling(char* to, int64_t line_bytes, const char* from, int64_t bytes, const Padding& padding) {
  pad_line(to, line_bytes, from, bytes, padding);
}

#if defined(__x86_64__)

namespace {

GR_OPS_INLINE void stream_block(char* to, const char* from) {
  for (int64_t at = 0; at < kBlock; at += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
}

}  // namespace

bool streams(const char* to, int64_t line_bytes, int64_t result_bytes) {
  return result_bytes >= kStreamed && line_bytes % kBlock == 0 && to_boundary(to) == kBlock;
}

void pad_line_streaming(char* to, int64_t line_bytes, const char* from, int64_t bytes, const Padding& padding) {
  int64_t at = 0;
  for (; at + kBlock <= bytes; at += kBlock) stream_block(to + at, from + at);
  if (at < bytes) {  // an element's width divides what is before the padding: it goes on as in a block of its own
    alignas(kBlock) char mixed[kBlock];
    std::memcpy(mixed, padding.block(), sizeof(mixed));
    std::memcpy(mixed, from + at, static_cast<size_t>(bytes - at));
    stream_block(to + at, mixed);
    at += kBlock;
  }
  for (; at < line_bytes; at += kBlock) stream_block(to + at, padding.block());
}

void finish_streaming() { _mm_sfence(); }

#else

bool streams(const char*, int64_t, int64_t) { return false; }

void pad_line_streaming(char* to, int64_t line_bytes, const char* from, int64_t bytes, const Padding& padding) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
  padding.fill(to + bytes, line_bytes - bytes);
}

void finish_streaming() {}

#endif

namespace {

GR_OPS_BY_REGISTER(copy_segment, (char* to, const char* from, int64_t bytes), to, from, bytes)

// Segments [first, end), which may spill over.
template <int64_t kRegister>
GR_OPS_INLINE void move_whole_by(const Segments& all, int64_t first, int64_t end) {
  const int64_t* starts = all.starts;
  const int64_t bytes_each = all.row_bytes;
  const int64_t ahead = ahead_of((starts[end] - starts[first]) * bytes_each / (end - first));
  char* to = all.to + starts[first] * bytes_each;
  for (int64_t p = first; p < end; ++p) {
    if (const int64_t next = p + ahead; next < all.count) {
      prefetch_segment(all.from + all.source(next) * bytes_each, (starts[next + 1] - starts[next]) * bytes_each);
    }
    const int64_t bytes = (starts[p + 1] - starts[p]) * bytes_each;
    const int64_t source = all.source(p) * bytes_each;
    if (all.from_bytes - source >= bytes + kSpill) {
      copy_segment_by<kRegister>(to, all.from + source, bytes);
    } else if (bytes > 0) {
      std::memcpy(to, all.from + source, static_cast<size_t>(bytes));
    }
    to += bytes;
  }
}

// The same for segments that stand in the source as they do in the result, with gaps between them. A step moves up to
// `blocks` blocks and takes the next segment without a branch: where a segment ends cannot be foretold, and each wrong
// guess takes as long as half a segment of 100 ids. The processor then looks ahead over some segments by itself; the
// starts of the next ones are asked for.
template <int64_t kRegister, int64_t blocks>
GR_OPS_INLINE void move_by_steps(const Segments& all, int64_t first, int64_t end) {
  constexpr int64_t step = blocks * kBlock;
  const int64_t* starts = all.starts;
  const int64_t bytes_each = all.row_bytes;
  const int64_t gap = all.source_step * bytes_each;
  const char* const readable = all.from + all.from_bytes - step;
  const char* next = all.from + first * gap;  // the segment behind this one
  const char* from = next;
  char* to = all.to + starts[first] * bytes_each;
  const char* const stop = all.to + starts[end] * bytes_each;
  int64_t left = 0;
  for (int64_t p = first - 1; to < stop;) {
    if constexpr (blocks == 2) {
      prefetch_lines(next, gap, step);
    } else {
      prefetch_lines(next, 0, kBlock);
      prefetch_lines(next, gap, kBlock);
    }
    fetch_to_write(to, step);
    if (from <= readable) {
      for (int64_t at = 0; at < step; at += kBlock) move_block<kRegister>(to + at, from + (left > at ? at : 0));
    } else {
      std::memcpy(to, from, static_cast<size_t>(std::min(left, step)));
    }
    to += std::min(left, step);
    const int64_t bytes = (starts[p + 2] - starts[p + 1]) * bytes_each;
    const bool done = left <= step;
    from = done ? next : from + step;
    next = done ? next + gap : next;
    left = done ? bytes : left - step;
    p += done ? 1 : 0;
  }
}

template <int64_t kRegister>
GR_OPS_INLINE void move_by_two_blocks_by(const Segments& all, int64_t first, int64_t end) {
  move_by_steps<kRegister, 2>(all, first, end);
}

template <int64_t kRegister>
GR_OPS_INLINE void move_by_four_blocks_by(const Segments& all, int64_t first, int64_t end) {
  move_by_steps<kRegister, 4>(all, first, end);
}

GR_OPS_BY_REGISTER(move_whole, (const Segments& all, int64_t first, int64_t end), all, first, end)
GR_OPS_BY_REGISTER(move_by_two_blocks, (const Segments& all, int64_t first, int64_t end), all, first, end)
GR_OPS_BY_REGISTER(move_by_four_blocks, (const Segments& all, int64_t first, int64_t end), all, first, end)

}  // namespace

void copy_spilling(char* to, const char* from, int64_t bytes) { copy_segment(to, from, bytes); }

int64_t Segments::segment_of(int64_t row) const {
  return std::upper_bound(starts, starts + count + 1, row) - starts - 1;
}

void Segments::move_part(int64_t segment, int64_t first, int64_t end) const {
  const int64_t row = std::max(starts[segment], first);
  const int64_t stop = std::min(starts[segment + 1], end);
  if (row >= stop) return;
  const int64_t cell = source(segment) + row - starts[segment];
  std::memcpy(to + row * row_bytes, from + cell * row_bytes, static_cast<size_t>((stop - row) * row_bytes));
}

void Segments::move(int64_t first, int64_t end) const {
  if (first >= end || row_bytes == 0) return;
  const int64_t last = segment_of(end - 1);
  int64_t p = segment_of(first);
  if (p < last && starts[p] < first) move_part(p++, first, end);
  int64_t whole = last;  // what segments before this one spill over comes later in the same chunk
  while (whole > p && (end - starts[whole]) * row_bytes < kSpill) --whole;
  if (p < whole) {
    const int64_t mean = (starts[whole] - starts[p]) * row_bytes / (whole - p);
    if (sources == nullptr && mean < kFourBlocks) {
      move_by_two_blocks(*this, p, whole);
    } else if (sources == nullptr && mean < kLong) {
      move_by_four_blocks(*this, p, whole);
    } else {
      move_whole(*this, p, whole);
    }
    p = whole;
  }
  for (; p <= last; ++p) move_part(p, first, end);
}

}  // namespace gr_ops
