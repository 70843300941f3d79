#include <ATen/Dispatch.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <cstring>

#include "common/operators.h"
#include "common/override.h"
#include "common/parallel.h"
#include "common/result.h"
#include "common/wide.h"
#include "permute/checks.h"

// A permutation moves whole feature blocks: contiguous on both sides, copied with memcpy whatever their dtype. The
// result is cut into equal shares, so one huge feature is shared by the threads.
namespace gr_ops::cpu {
namespace {

std::vector<int64_t> entries_of(const at::Tensor& permute) {
  const at::Tensor longs = permute.to(at::kLong).contiguous();
  const auto* data = longs.const_data_ptr<int64_t>();
  return {data, data + longs.numel()};
}

int64_t row_bytes(const at::Tensor& tensor) {
  return c10::multiply_integers(tensor.sizes().slice(1)) * static_cast<int64_t>(tensor.itemsize());
}

at::Tensor empty_rows(const at::Tensor& like, int64_t rows) {
  std::vector<int64_t> shape = like.sizes().vec();
  shape[0] = rows;
  return new_result(shape, like.options());
}

constexpr size_t kBlocksAhead = 8;  // short blocks are used up before the first one comes from memory

// The block that holds `row`; starts ascends and starts.front() <= row < starts.back().
size_t block_of(const std::vector<int64_t>& starts, int64_t row) {
  return std::upper_bound(starts.begin(), starts.end(), row) - starts.begin() - 1;
}

at::Tensor permute_rows(const at::Tensor& rows, const std::vector<int64_t>& permute, const PermuteOffsets& offsets) {
  const at::Tensor source = rows.contiguous();
  at::Tensor result = empty_rows(rows, offsets.out.back());
  const int64_t bytes = row_bytes(rows);
  if (result.numel() == 0) return result;
  const auto* from = static_cast<const char*>(source.const_data_ptr());
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  parallel_rows(offsets.out.back(), bytes, [&](int64_t first, int64_t end) {
    int64_t row = first;
    for (size_t p = block_of(offsets.out, first); row < end; ++p) {
      const int64_t stop = std::min(offsets.out[p + 1], end);
      const int64_t start = offsets.in[permute[p]] + row - offsets.out[p];
      if (const size_t next = p + kBlocksAhead; next < permute.size()) {
        prefetch_stretch(from + offsets.in[permute[next]] * bytes, (offsets.out[next + 1] - offsets.out[next]) * bytes);
      }
      std::memcpy(to + row * bytes, from + start * bytes, (stop - row) * bytes);
      row = stop;
    }
  });
  return result;
}

template <typename Length>
void gather_lengths(const at::Tensor& lengths, const std::vector<int64_t>& permute, const at::Tensor& result) {
  const auto* from = lengths.const_data_ptr<Length>();
  auto* to = result.mutable_data_ptr<Length>();
  const int64_t batch = lengths.dim() == 2 ? lengths.size(1) : 1;
  const auto copies = static_cast<int64_t>(permute.size());
  parallel_rows(copies, batch * static_cast<int64_t>(sizeof(Length)), [&](int64_t first, int64_t end) {
    if (batch == 1) {
      for (int64_t p = first; p < end; ++p) to[p] = from[permute[p]];
    } else {
      for (int64_t p = first; p < end; ++p) std::copy_n(from + permute[p] * batch, batch, to + p * batch);
    }
  });
}

at::Tensor permute_lengths(const at::Tensor& lengths, const std::vector<int64_t>& permute) {
  const at::Tensor source = lengths.contiguous();
  at::Tensor result = empty_rows(lengths, static_cast<int64_t>(permute.size()));
  if (result.numel() == 0) return result;
  if (lengths.scalar_type() == at::kInt) {
    gather_lengths<int32_t>(source, permute, result);
  } else {
    gather_lengths<int64_t>(source, permute, result);
  }
  return result;
}

using Permuted = std::tuple<at::Tensor, at::Tensor, std::optional<at::Tensor>>;

Permuted permute_sparse_data(const char* op, int64_t rank, const at::Tensor& permute, const at::Tensor& lengths,
                             const at::Tensor& values, const std::optional<at::Tensor>& weights,
                             const std::optional<int64_t>& permuted_sum) {
  check_permute(op, permute, lengths, values, weights, permuted_sum, rank);
  const PermuteOffsets offsets = permute_offsets(op, permute, lengths);
  check_permute_sums(op, offsets, values.size(0), permuted_sum);
  const std::vector<int64_t> entries = entries_of(permute);
  std::optional<at::Tensor> permuted_weights;
  if (weights) permuted_weights = permute_rows(*weights, entries, offsets);
  return {permute_lengths(lengths, entries), permute_rows(values, entries, offsets), std::move(permuted_weights)};
}

Permuted permute_2D_sparse_data(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                                const std::optional<at::Tensor>& weights, std::optional<int64_t> permuted_sum) {
  return permute_sparse_data("permute_2D_sparse_data", 2, permute, lengths, values, weights, permuted_sum);
}

Permuted permute_1D_sparse_data(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                                const std::optional<at::Tensor>& weights, std::optional<int64_t> permuted_sum) {
  return permute_sparse_data("permute_1D_sparse_data", 1, permute, lengths, values, weights, permuted_sum);
}

// The positions of permute that name a feature, ascending: those of feature t are at[starts[t]..starts[t + 1]].
struct Copies {
  Copies(const std::vector<int64_t>& permute, size_t features) : starts(features + 1), at(permute.size()) {
    for (const int64_t t : permute) ++starts[t + 1];
    for (size_t t = 0; t < features; ++t) starts[t + 1] += starts[t];
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    for (size_t p = 0; p < permute.size(); ++p) at[next[permute[p]]++] = static_cast<int64_t>(p);
  }
  std::vector<int64_t> starts;
  std::vector<int64_t> at;
};

// result[i] = grad[starts[0] + i] + grad[starts[1] + i] + ..., summed in that order and rounded once.
template <typename T>
void add_copies(const T* grad, const std::vector<int64_t>& starts, T* result, int64_t count) {
  constexpr int64_t tile = 256;
  Wide<T> sums[tile];
  for (int64_t done = 0; done < count; done += tile) {
    const int64_t now = std::min(tile, count - done);
    std::fill_n(sums, now, Wide<T>(0));
    for (const int64_t start : starts) {
      const T* copy = grad + start + done;
      for (int64_t i = 0; i < now; ++i) sums[i] += static_cast<Wide<T>>(copy[i]);
    }
    for (int64_t i = 0; i < now; ++i) result[done + i] = static_cast<T>(sums[i]);
  }
}

template <typename T>
void gather_gradient(const T* grad, const std::vector<int64_t>& permute, const PermuteOffsets& offsets, int64_t inner,
                     T* result) {
  const Copies copies(permute, offsets.in.size() - 1);
  parallel_rows(offsets.in.back(), inner * static_cast<int64_t>(sizeof(T)), [&](int64_t first, int64_t end) {
    std::vector<int64_t> starts;
    int64_t row = first;
    for (size_t t = block_of(offsets.in, first); row < end; ++t) {
      const int64_t stop = std::min(offsets.in[t + 1], end);
      starts.clear();
      for (int64_t c = copies.starts[t]; c < copies.starts[t + 1]; ++c) {
        starts.push_back((offsets.out[copies.at[c]] + row - offsets.in[t]) * inner);
      }
      T* target = result + row * inner;
      const int64_t count = (stop - row) * inner;
      if (starts.empty()) {
        std::fill_n(target, count, T(0));
      } else if (starts.size() == 1) {
        std::copy_n(grad + starts[0], count, target);
      } else {
        add_copies(grad, starts, target, count);
      }
      row = stop;
    }
  });
}

at::Tensor permute_sparse_data_backward(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& grad,
                                        int64_t total) {
  constexpr const char* op = "permute_sparse_data_backward";
  check_permute_grad(op, permute, lengths, grad, total);
  const PermuteOffsets offsets = permute_offsets(op, permute, lengths);
  check_permute_grad_sums(op, offsets, grad.size(0), total);
  at::Tensor result = empty_rows(grad, total);
  if (result.numel() == 0) return result;
  const at::Tensor source = grad.contiguous();
  AT_DISPATCH_FLOATING_TYPES_AND3(at::kHalf, at::kBFloat16, at::kComplexFloat, grad.scalar_type(), op, [&] {
    gather_gradient(source.const_data_ptr<scalar_t>(), entries_of(permute), offsets,
                    c10::multiply_integers(grad.sizes().slice(1)), result.mutable_data_ptr<scalar_t>());
  });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) {
  m.impl("permute_2D_sparse_data", &permute_2D_sparse_data);
  m.impl("permute_1D_sparse_data", &permute_1D_sparse_data);
  m.impl("permute_sparse_data_backward", &permute_sparse_data_backward);
}
TORCH_LIBRARY_IMPL(fbgemm, CPU, m) {
  FbgemmRegistrar registrar(m);
  registrar.impl("permute_2D_sparse_data", forward_to_mxrec());
  registrar.impl("permute_1D_sparse_data", forward_to_mxrec());
}

}  // namespace gr_ops::cpu
