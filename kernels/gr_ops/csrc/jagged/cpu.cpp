#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <cstring>

#include "common/moves.h"
#include "common/override.h"
#include "common/parallel.h"
#include "common/prefetch.h"
#include "common/result.h"
#include "jagged/checks.h"
#include "jagged/tree.h"

// The jagged operators on the CPU: whole rows are moved with memcpy, whatever their dtype, and every byte of a result
// is written once. Shares of the result go to the threads, so rows of any length balance.
namespace gr_ops::cpu {
namespace {

std::vector<int64_t> concrete(const std::vector<c10::SymInt>& shape) { return C10_AS_INTARRAYREF_SLOW(shape).vec(); }

// Bytes of one row behind the first `outer` dimensions.
int64_t row_bytes(const at::Tensor& tensor, size_t outer) {
  return c10::multiply_integers(tensor.sizes().slice(outer)) * static_cast<int64_t>(tensor.itemsize());
}

// values [L, trailing...] -> [B, S1..SK, trailing...]
at::Tensor pad(const char* op, const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
               double padding_value, std::optional<int64_t> covered) {
  const auto shape = concrete(dense_shape(op, values, offsets, c10::fromIntArrayRefSlow(max_lengths)));
  const Padding padding(padding_bits(op, values.scalar_type(), padding_value), static_cast<int64_t>(values.itemsize()));
  check_offset_values(op, {offsets.begin(), offsets.end()}, covered);
  at::Tensor dense = new_result(shape, values.options());
  if (dense.numel() == 0) return dense;

  const at::Tensor source = values.contiguous();
  const OffsetTree tree(offsets, max_lengths);
  const int64_t bytes = row_bytes(values, 1);
  const int64_t line_bytes = tree.max_length() * bytes;
  const int64_t available = values.size(0);
  const auto* from = static_cast<const char*>(source.const_data_ptr());
  const char* const from_end = from + available * bytes;
  auto* to = static_cast<char*>(dense.mutable_data_ptr());
  const int64_t dense_bytes = dense.numel() * static_cast<int64_t>(dense.itemsize());
  const bool streaming = streams(to, line_bytes, dense_bytes);
  parallel_rows(dense_bytes / line_bytes, line_bytes, [&](int64_t first, int64_t end) {
    const char* const to_end = to + end * line_bytes;
    OffsetTree::NodeWalk walk(tree, first);
    for (int64_t line = first; line < end; ++line) {
      const int64_t node = walk.next();
      char* target = to + line * line_bytes;
      int64_t stored = 0;
      const char* segment = from;
      if (node >= 0) {
        const int64_t start = tree.rows()[node];
        const int64_t rows = std::min(tree.rows()[node + 1], available) - start;
        stored = std::max<int64_t>(0, std::min(rows, tree.max_length())) * bytes;
        segment += start * bytes;
      }
      if (streaming) {
        pad_line_streaming(target, line_bytes, segment, stored, padding);
      } else if (to_end - target >= line_bytes + kSpill && from_end - segment >= stored + kSpill) {
        pad_line_spilling(target, line_bytes, segment, stored, padding);
      } else {
        if (stored > 0) std::memcpy(target, segment, stored);
        padding.fill(target + stored, line_bytes - stored);
      }
    }
    if (streaming) finish_streaming();
  });
  return dense;
}

// One level of offsets from 0 to total, and no row that dense [B, S, ...] does not hold: every row of the result is
// moved. The sign bit tells of a longer row, so that the loop is vectorised.
bool moves_all(const OffsetTree& tree, size_t levels, int64_t total) {
  const int64_t* starts = tree.rows();
  if (levels != 1 || starts[0] != 0 || starts[tree.nodes()] != total) return false;
  int64_t signs = 0;
  for (int64_t b = 0; b < tree.nodes(); ++b) signs |= tree.max_length() - (starts[b + 1] - starts[b]);
  return signs >= 0;
}

// dense [B, S1..SK, trailing...] -> [total_length, trailing...]; what dense does not hold is 0.
at::Tensor unpad(const char* op, const at::Tensor& dense, at::TensorList offsets, std::optional<int64_t> given_total) {
  check_dense(op, dense, offsets);
  check_offset_values(op, {offsets.begin(), offsets.end()}, std::nullopt);
  const OffsetTree tree(offsets, dense.sizes().slice(1, offsets.size()));
  const int64_t total = given_total ? *given_total : tree.rows()[tree.nodes()];
  const auto shape = concrete(jagged_shape(op, dense, offsets, total));
  at::Tensor values = new_result(shape, dense.options());
  if (values.numel() == 0) return values;

  const at::Tensor source = dense.contiguous();
  const int64_t bytes = row_bytes(values, 1);
  const auto* from = static_cast<const char*>(source.const_data_ptr());
  const int64_t from_bytes = dense.numel() * static_cast<int64_t>(dense.itemsize());
  auto* to = static_cast<char*>(values.mutable_data_ptr());
  const int64_t* starts = tree.rows();
  const int64_t nodes = tree.nodes();
  if (moves_all(tree, offsets.size(), total)) {
    const Segments segments{from, from_bytes, to, nullptr, tree.max_length(), starts, nodes, bytes};
    parallel_rows(total, bytes, [&](int64_t first, int64_t end) { segments.move(first, end); });
    return values;
  }
  parallel_rows(total, bytes, [&](int64_t first, int64_t end) {
    const auto zero = [&](int64_t row, int64_t stop) { std::memset(to + row * bytes, 0, (stop - row) * bytes); };
    OffsetTree::LineWalk walk(tree);
    int64_t row = first;
    if (row < starts[0]) {
      row = std::min(starts[0], end);
      zero(first, row);
    }
    int64_t node = std::upper_bound(starts, starts + nodes + 1, row) - starts - 1;
    int64_t next_line = node < nodes ? walk.line_of(node) : -1;
    for (; row < end && node < nodes; ++node) {
      const int64_t stop = std::min(starts[node + 1], end);
      const int64_t line = next_line;
      next_line = node + 1 < nodes ? walk.line_of(node + 1) : -1;
      if (row >= stop) continue;
      if (next_line >= 0) {
        const int64_t rows = std::min(starts[node + 2] - starts[node + 1], tree.max_length());
        prefetch_segment(from + next_line * tree.max_length() * bytes, rows * bytes);
      }
      const int64_t stored = line < 0 ? row : std::max(row, std::min(stop, starts[node] + tree.max_length()));
      const int64_t cell = line * tree.max_length() + row - starts[node];
      const int64_t moved = (stored - row) * bytes;
      if ((end - row) * bytes >= moved + kSpill && from_bytes - cell * bytes >= moved + kSpill) {
        if (moved > 0) copy_spilling(to + row * bytes, from + cell * bytes, moved);
      } else if (moved > 0) {
        std::memcpy(to + row * bytes, from + cell * bytes, moved);
      }
      if (stop > stored) zero(stored, stop);
      row = stop;
    }
    if (row < end) zero(row, end);
  });
  return values;
}

at::Tensor jagged_to_padded_dense(const at::Tensor& values, const TensorVector& offsets, at::IntArrayRef max_lengths,
                                  double padding_value) {
  const std::optional<int64_t> rows = values.dim() > 0 ? std::optional<int64_t>(values.size(0)) : std::nullopt;
  return pad("jagged_to_padded_dense", values, offsets, max_lengths, padding_value, rows);
}

at::Tensor jagged_to_padded_dense_backward(const at::Tensor& grad, const TensorVector& offsets, int64_t total_length) {
  return unpad("jagged_to_padded_dense_backward", grad, offsets, total_length);
}

at::Tensor dense_to_jagged_forward(const at::Tensor& dense, const TensorVector& offsets,
                                   std::optional<int64_t> total_length) {
  return unpad("dense_to_jagged", dense, offsets, total_length);
}

std::tuple<at::Tensor, TensorVector> dense_to_jagged(const at::Tensor& dense, const TensorVector& offsets,
                                                     std::optional<int64_t> total_length) {
  return {dense_to_jagged_forward(dense, offsets, total_length), offsets};
}

// grad may have fewer rows than offsets address (total_L was smaller): those cells get padding_value.
at::Tensor dense_to_jagged_backward(const at::Tensor& grad, const TensorVector& offsets, at::IntArrayRef max_lengths,
                                    double padding_value) {
  return pad("dense_to_jagged_backward", grad, offsets, max_lengths, padding_value, std::nullopt);
}

template <typename Library>
void register_cpu(Library& m) {
  m.impl("jagged_to_padded_dense", &jagged_to_padded_dense);
  m.impl("jagged_to_padded_dense_forward", &jagged_to_padded_dense);
  m.impl("jagged_to_padded_dense_backward", &jagged_to_padded_dense_backward);
  m.impl("dense_to_jagged", &dense_to_jagged);
  m.impl("dense_to_jagged_forward", &dense_to_jagged_forward);
  m.impl("dense_to_jagged_backward", &dense_to_jagged_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { register_cpu(m); }
TORCH_LIBRARY_IMPL(fbgemm, CPU, m) {
  FbgemmRegistrar registrar(m);
  register_cpu(registrar);
}

}  // namespace gr_ops::cpu
