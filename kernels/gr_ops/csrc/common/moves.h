#pragma once

#include <cstddef>
#include <cstdint>

// Short segments of bytes, moved into a result that is filled from front to back. memcpy and memset choose their way
// by the length: where nobody can foretell lengths, that costs two or three mispredicted branches a segment. These move
// whole blocks: they read and write up to kSpill bytes beyond the end. What they spill over has to be the same
// thread's, and written later.
namespace gr_ops {

constexpr int64_t kSpill = 256;

// The element of a result's padding, repeated.
class Padding {
 public:
  // One element's bytes stand in the low bytes of `bits`; width: 1, 2, 4 or 8 bytes.
  Padding(int64_t bits, int64_t width);
  void fill(char* to, int64_t bytes) const;  // nothing is spilled
  const char* block() const { return block_; }

 private:
  alignas(64) char block_[64];
  bool zero_;
};

// memcpy(to, from, bytes), and the rest of to[0, line_bytes) is padding.
void pad_line_spilling(char* to, int64_t line_bytes, const char* from, int64_t bytes, const Padding& padding);

// The same past the caches, for whole blocks of 64 bytes, and nothing is spilled; finish_streaming() comes before
// another thread reads them. A result of kStreamed bytes leaves the last cache before a reader has come to its end:
// lines of 26 KB, 52 MB of them, take 0.71 of memcpy's time so, and 0.78 of it with a pass that reads them; with
// 13 MB the two together take 1.16 of it, and with 7 MB 1.5.
constexpr int64_t kStreamed = 16 * 1024 * 1024;
bool streams(const char* to, int64_t line_bytes, int64_t result_bytes);
void pad_line_streaming(char* to, int64_t line_bytes, const char* from, int64_t bytes, const Padding& padding);
void finish_streaming();

// memcpy(to, from, bytes)
void copy_spilling(char* to, const char* from, int64_t bytes);

// Segments of rows that stand one after the other in a result: segment p is rows [starts[p], starts[p + 1]) of `to`
// and comes from row sources[p] on of `from`; with no sources from row p * source_step.
struct Segments {
  const char* from;
  int64_t from_bytes;
  char* to;
  const int64_t* sources;  // [count], or null
  int64_t source_step;
  const int64_t* starts;  // [count + 1], ascending
  int64_t count;
  int64_t row_bytes;

  // Rows [first, end) of the result, of those that segments have; others may move other rows at the same time.
  void move(int64_t first, int64_t end) const;
  int64_t source(int64_t segment) const { return sources != nullptr ? sources[segment] : segment * source_step; }

 private:
  int64_t segment_of(int64_t row) const;
  void move_part(int64_t segment, int64_t first, int64_t end) const;
};

}  // namespace gr_ops
