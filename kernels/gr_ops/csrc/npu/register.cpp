#include <torch/library.h>

#include "common/checks.h"
#include "npu/cumsum.h"
#include "npu/jagged.h"

namespace gr_ops::npu {
namespace {

at::Tensor jagged_to_padded_dense(const at::Tensor& values, const TensorVector& offsets, at::IntArrayRef max_lengths,
                                  double padding_value) {
  constexpr const char* op = "jagged_to_padded_dense";
  dense_shape(op, values, offsets, c10::fromIntArrayRefSlow(max_lengths));
  check_values_if_enabled(op, offsets, values.size(0));
  return pad(op, values, offsets, max_lengths, padding_value);
}

at::Tensor jagged_to_padded_dense_backward(const at::Tensor& grad, const TensorVector& offsets, int64_t total_length) {
  return unpad("jagged_to_padded_dense_backward", grad, offsets, total_length);
}

at::Tensor dense_to_jagged_forward(const at::Tensor& dense, const TensorVector& offsets,
                                   std::optional<int64_t> total_length) {
  constexpr const char* op = "dense_to_jagged";
  check_dense(op, dense, offsets);
  check_values_if_enabled(op, offsets, std::nullopt);
  return unpad(op, dense, offsets, total_length ? *total_length : read_total_length(op, dense, offsets));
}

std::tuple<at::Tensor, TensorVector> dense_to_jagged(const at::Tensor& dense, const TensorVector& offsets,
                                                     std::optional<int64_t> total_length) {
  return {dense_to_jagged_forward(dense, offsets, total_length), offsets};
}

// grad may have fewer rows than offsets address (total_L was smaller): those cells get padding_value.
at::Tensor dense_to_jagged_backward(const at::Tensor& grad, const TensorVector& offsets, at::IntArrayRef max_lengths,
                                    double padding_value) {
  return pad("dense_to_jagged_backward", grad, offsets, max_lengths, padding_value);
}

at::Tensor asynchronous_complete_cumsum(const at::Tensor& lengths) {
  return complete_cumsum("asynchronous_complete_cumsum", lengths);
}

// As fbgemm: the scan runs over the flattened tensor, across its rows.
at::Tensor flat_cumsum(const char* op, const at::Tensor& lengths, int64_t first) {
  check_cumsum_input(op, lengths);
  const at::Tensor complete = complete_cumsum(op, lengths.reshape({-1}));
  return complete.slice(0, first, first + lengths.numel()).clone().view(lengths.sizes());
}

at::Tensor asynchronous_inclusive_cumsum(const at::Tensor& lengths) {
  return flat_cumsum("asynchronous_inclusive_cumsum", lengths, 1);
}

at::Tensor asynchronous_exclusive_cumsum(const at::Tensor& lengths) {
  return flat_cumsum("asynchronous_exclusive_cumsum", lengths, 0);
}

void register_npu(torch::Library& m) {
  m.impl("jagged_to_padded_dense", &jagged_to_padded_dense);
  m.impl("jagged_to_padded_dense_forward", &jagged_to_padded_dense);
  m.impl("jagged_to_padded_dense_backward", &jagged_to_padded_dense_backward);
  m.impl("dense_to_jagged", &dense_to_jagged);
  m.impl("dense_to_jagged_forward", &dense_to_jagged_forward);
  m.impl("dense_to_jagged_backward", &dense_to_jagged_backward);
  m.impl("asynchronous_complete_cumsum", &asynchronous_complete_cumsum);
  m.impl("asynchronous_inclusive_cumsum", &asynchronous_inclusive_cumsum);
  m.impl("asynchronous_exclusive_cumsum", &asynchronous_exclusive_cumsum);
}

}  // namespace

TORCH_LIBRARY_IMPL(fbgemm, PrivateUse1, m) { register_npu(m); }
TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) { register_npu(m); }

}  // namespace gr_ops::npu
