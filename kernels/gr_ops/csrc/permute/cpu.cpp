#include <ATen/Dispatch.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <cstring>

#include "common/moves.h"
#include "common/operators.h"
#include "common/override.h"
#include "common/parallel.h"
#include "common/result.h"
#include "common/wide.h"
#include "permute/checks.h"

// A permutation moves whole feature blocks: contiguous on both sides, copied with memcpy whatever their dtype. The
// result is cut into equal chunks, so one huge feature is spread over the threads.
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

// The block that holds `row`; starts ascends and starts.front() <= row < starts.back().
size_t block_of(const Longs& starts, int64_t row) {
  const int64_t* first = starts.data();
  return static_cast<size_t>(std::upper_bound(first, first + starts.size(), row) - first - 1);
}

// Rows of the values, or of the weights, in the order of their copies.
class PermutedRows {
 public:
  PermutedRows(const at::Tensor& rows, const PermuteOffsets& offsets)
      : source_(rows.contiguous()),
        result_(empty_rows(rows, offsets.out.back())),
        offsets_(offsets),
        segments_{static_cast<const char*>(source_.const_data_ptr()),
                  rows.numel() * static_cast<int64_t>(rows.itemsize()),
                  static_cast<char*>(result_.mutable_data_ptr()),
                  offsets.source.data(),
                  0,
                  offsets.out.data(),
                  static_cast<int64_t>(offsets.source.size()),
                  row_bytes(rows)} {}

  const at::Tensor& result() const { return result_; }
  int64_t bytes() const { return offsets_.out.back() * segments_.row_bytes; }

  // Chunk `chunk` of `chunks` of the result.
  void move(int64_t chunk, int64_t chunks) const {
    const int64_t total = offsets_.out.back();
    segments_.move(total * chunk / chunks, total * (chunk + 1) / chunks);
  }

 private:
  at::Tensor source_;
  at::Tensor result_;
  const PermuteOffsets& offsets_;
  Segments segments_;
};

// Lengths [P, B] or [P] of the copies.
template <typename Length, typename Index>
class PermutedLengths {
 public:
  PermutedLengths(const at::Tensor& lengths, const at::Tensor& permute, const PermuteOffsets& offsets,
                  const at::Tensor& result)
      : source_(lengths.contiguous()),
        entries_(permute.contiguous()),
        offsets_(offsets),
        batch_(lengths.dim() == 2 ? lengths.size(1) : 1),
        from_(source_.const_data_ptr<Length>()),
        permute_(entries_.const_data_ptr<Index>()),
        to_(result.mutable_data_ptr<Length>()) {}

  void move(int64_t chunk, int64_t chunks) const {
    const int64_t copies = entries_.numel();
    const int64_t first = copies * chunk / chunks;
    const int64_t end = copies * (chunk + 1) / chunks;
    if (batch_ == 1) {
      for (int64_t p = first; p < end; ++p) to_[p] = static_cast<Length>(offsets_.out[p + 1] - offsets_.out[p]);
    } else {
      for (int64_t p = first; p < end; ++p) {
        std::copy_n(from_ + static_cast<int64_t>(permute_[p]) * batch_, batch_, to_ + p * batch_);
      }
    }
  }

 private:
  at::Tensor source_;
  at::Tensor entries_;
  const PermuteOffsets& offsets_;
  int64_t batch_;
  const Length* from_;
  const Index* permute_;
  Length* to_;
};

using Permuted = std::tuple<at::Tensor, at::Tensor, std::optional<at::Tensor>>;

// All moves of a call in one go: a thread is woken once.
template <typename Length, typename Index>
Permuted permute_all(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                     const std::optional<at::Tensor>& weights, const PermuteOffsets& offsets) {
  const at::Tensor permuted = empty_rows(lengths, permute.numel());
  const PermutedLengths<Length, Index> moved_lengths(lengths, permute, offsets, permuted);
  const PermutedRows moved_values(values, offsets);
  std::optional<PermutedRows> moved_weights;
  if (weights) moved_weights.emplace(*weights, offsets);
  const int64_t bytes = permuted.numel() * static_cast<int64_t>(sizeof(Length)) + moved_values.bytes() +
                        (moved_weights ? moved_weights->bytes() : 0);
  const int64_t chunks = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), bytes / kGrainBytes));
  at::parallel_for(0, chunks, 1, [&](int64_t first, int64_t end) {
    for (int64_t chunk = first; chunk < end; ++chunk) {
      moved_lengths.move(chunk, chunks);
      moved_values.move(chunk, chunks);
      if (moved_weights) moved_weights->move(chunk, chunks);
    }
  });
  return {permuted, moved_values.result(),
          moved_weights ? std::optional<at::Tensor>(moved_weights->result()) : std::nullopt};
}

Permuted permute_sparse_data(const char* op, int64_t rank, const at::Tensor& permute, const at::Tensor& lengths,
                             const at::Tensor& values, const std::optional<at::Tensor>& weights,
                             const std::optional<int64_t>& permuted_sum) {
  check_permute(op, permute, lengths, values, weights, permuted_sum, rank);
  const PermuteOffsets offsets = permute_offsets(op, permute, lengths);
  check_permute_sums(op, offsets, values.size(0), permuted_sum);
  const bool narrow = permute.scalar_type() == at::kInt;
  if (lengths.scalar_type() == at::kInt) {
    return narrow ? permute_all<int32_t, int32_t>(permute, lengths, values, weights, offsets)
                  : permute_all<int32_t, int64_t>(permute, lengths, values, weights, offsets);
  }
  return narrow ? permute_all<int64_t, int32_t>(permute, lengths, values, weights, offsets)
                : permute_all<int64_t, int64_t>(permute, lengths, values, weights, offsets);
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
