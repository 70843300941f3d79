#include "permute/lengths.h"

#include "common/vector_clones.h"

namespace gr_ops {
namespace {

template <typename Length>
inline __attribute__((always_inline)) Length sum(const Length* lengths, int64_t rows, int64_t batch, int64_t* sums) {
  Length bits = 0;
  if (batch == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      sums[r] = lengths[r];
      bits |= lengths[r];
    }
    return bits;
  }
  for (int64_t r = 0; r < rows; ++r, lengths += batch) {
    uint64_t total = 0;
    for (int64_t i = 0; i < batch; ++i) {
      total += static_cast<uint64_t>(lengths[i]);
      bits |= lengths[i];
    }
    sums[r] = static_cast<int64_t>(total);
  }
  return bits;
}

}  // namespace

GR_OPS_VECTOR_CLONES
int32_t sum_lengths(const int32_t* lengths, int64_t rows, int64_t batch, int64_t* sums) {
  return sum(lengths, rows, batch, sums);
}

GR_OPS_VECTOR_CLONES
int64_t sum_lengths(const int64_t* lengths, int64_t rows, int64_t batch, int64_t* sums) {
  return sum(lengths, rows, batch, sums);
}

}  // namespace gr_ops
