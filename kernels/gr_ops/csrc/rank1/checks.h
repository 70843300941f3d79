#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

// Validation of the rank-1 gather and its gradient (docs/operators.md), shared by every back end and the Meta
// kernels.
namespace gr_ops {

void check_gather(const char* op, const at::Tensor& x, const at::Tensor& index);

void check_gather_grad(const char* op, const at::Tensor& grad, const at::Tensor& x, const at::Tensor& index);

// index on the CPU, contiguous: raises where it leaves [0, length).
void check_gather_index(const char* op, const at::Tensor& index, int64_t length);

[[noreturn]] void fail_entry(const char* op, int64_t position, int64_t entry, int64_t length);

// The same for entries [first, end). The loop has no branch: it is vectorised. Bit 63 (31) of an entry or of what is
// left to the last element is set exactly where the entry is out of range.
template <typename Index>
void check_entries_in_range(const char* op, const Index* index, int64_t first, int64_t end, int64_t length) {
  using Unsigned = std::make_unsigned_t<Index>;
  const auto last = static_cast<Unsigned>(std::min<int64_t>(length - 1, std::numeric_limits<Index>::max()));
  Unsigned bits = 0;
  for (int64_t i = first; i < end; ++i) {
    const auto entry = static_cast<Unsigned>(index[i]);
    bits |= entry | (last - entry);
  }
  if (static_cast<Index>(bits) >= 0) return;
  for (int64_t i = first; i < end; ++i) {
    if (index[i] < 0 || static_cast<int64_t>(index[i]) >= length) fail_entry(op, i, index[i], length);
  }
}

}  // namespace gr_ops
