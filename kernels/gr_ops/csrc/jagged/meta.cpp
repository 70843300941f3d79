#include <torch/library.h>

#include "jagged/checks.h"

// Shape inference without a device. dense_to_jagged without total_L has a size that only the data knows: the
// fake kernels in gr_ops/fake.py serve it, a plain meta tensor cannot.
namespace gr_ops {
namespace {

at::Tensor pad(const at::Tensor& values, const TensorVector& offsets, c10::SymIntArrayRef max_lengths, double padding) {
  const auto shape = dense_shape("jagged_to_padded_dense", values, offsets, max_lengths);
  if (!values.is_floating_point() && !values.is_complex()) {
    padding_bits("jagged_to_padded_dense", values.scalar_type(), padding);
  }
  return values.new_empty_symint(shape);
}

at::Tensor unpad_backward(const at::Tensor& grad, const TensorVector& offsets, c10::SymIntArrayRef max_lengths,
                          double /*padding*/) {
  return grad.new_empty_symint(dense_shape("dense_to_jagged_backward", grad, offsets, max_lengths));
}

at::Tensor pad_backward(const at::Tensor& grad, const TensorVector& offsets, c10::SymInt total_length) {
  return grad.new_empty_symint(jagged_shape("jagged_to_padded_dense_backward", grad, offsets, total_length));
}

at::Tensor unpad(const at::Tensor& dense, const TensorVector& offsets, std::optional<c10::SymInt> total_length) {
  TORCH_CHECK_NOT_IMPLEMENTED(total_length.has_value(),
                              "dense_to_jagged: total_L is not given; expected a value for a meta tensor, whose "
                              "offsets cannot be read, got None");
  return dense.new_empty_symint(jagged_shape("dense_to_jagged", dense, offsets, *total_length));
}

std::tuple<at::Tensor, TensorVector> unpad_with_offsets(const at::Tensor& dense, const TensorVector& offsets,
                                                        std::optional<c10::SymInt> total_length) {
  return {unpad(dense, offsets, std::move(total_length)), offsets};
}

void register_meta(torch::Library& m) {
  m.impl("jagged_to_padded_dense", &pad);
  m.impl("jagged_to_padded_dense_forward", &pad);
  m.impl("jagged_to_padded_dense_backward", &pad_backward);
  m.impl("dense_to_jagged_backward", &unpad_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, Meta, m) { register_meta(m); }

TORCH_LIBRARY_IMPL(fbgemm, Meta, m) {
  register_meta(m);
  m.impl("dense_to_jagged", &unpad_with_offsets);
  m.impl("dense_to_jagged_forward", &unpad);
}

}  // namespace gr_ops
