#pragma once

#include <ATen/Parallel.h>

#include <cstdint>

// Bags over threads.
namespace row_math {

// Work below this many row elements is not worth a second thread.
constexpr int64_t kSerialElements = 64 * 1024;

// How many chunks to cut `elements` elements of rows into: several for each thread, as some take longer.
inline int64_t chunks_for(int64_t elements) {
  return elements < kSerialElements || at::get_num_threads() == 1 ? 1 : at::get_num_threads() * 4;
}

// The first bag of a chunk, where [0, bags) is cut into chunks with about the same number of indices and bags together;
// offsets has bags + 1 entries.
inline int64_t first_bag_of(const int64_t* offsets, int64_t bags, int64_t chunk, int64_t chunks) {
  const int64_t total = offsets[bags] + bags;
  const int64_t target = total / chunks * chunk + total % chunks * chunk / chunks;
  int64_t low = 0;
  int64_t high = bags;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (offsets[middle] + middle < target) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return chunk == chunks ? bags : low;
}

// body(first, end) over bags of rows of `width` elements, in parallel where it pays.
template <typename Body>
void for_bags(const int64_t* offsets, int64_t bags, int64_t width, Body body) {
  const int64_t chunks = chunks_for((offsets[bags] + bags) * width);
  at::parallel_for(0, chunks, 1, [&](int64_t from, int64_t to) {
    for (int64_t chunk = from; chunk < to; ++chunk) {
      const int64_t first = first_bag_of(offsets, bags, chunk, chunks);
      const int64_t end = first_bag_of(offsets, bags, chunk + 1, chunks);
      if (first < end) body(first, end);
    }
  });
}

}  // namespace row_math
