#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <cstring>

#include "aclnn/operator.h"
#include "common/settings.h"
#include "faults/npu_faults.h"
#include "jagged/checks.h"

namespace gr_ops::npu {
namespace {

std::vector<at::Tensor> contiguous(at::TensorList tensors) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.contiguous());
  return result;
}

std::vector<int64_t> concrete(const std::vector<c10::SymInt>& shape) { return C10_AS_INTARRAYREF_SLOW(shape).vec(); }

// The operators see two levels only: rows, and D inner elements per row.
at::Tensor as_rows(const at::Tensor& tensor, at::IntArrayRef outer, at::IntArrayRef inner) {
  std::vector<int64_t> shape = outer.vec();
  shape.push_back(c10::multiply_integers(inner));
  return tensor.view(shape);
}

// The value that has been converted already: fill_ itself refuses what does not fit (-128.9 for int8).
at::Scalar scalar_of(at::ScalarType dtype, int64_t bits) {
  at::Tensor value = at::empty({}, at::TensorOptions(dtype).device(at::kCPU));
  std::memcpy(value.mutable_data_ptr(), &bits, value.itemsize());
  return value.item();
}

// offsets_are_new: they come from the caller, and faults in them are told. With a gradient they come again, and may
// describe more rows than there are.
void run_jagged_to_padded_dense(const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
                                int64_t padding, const at::Tensor& dense, bool offsets_are_new) {
  static const aclnn::Operator<const aclTensor*, const aclTensorList*, const aclTensor*, const aclIntArray*, int64_t,
                               const aclTensor*, const aclTensor*>
      op("aclnnJaggedToPaddedDense");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  const aclTensor* records = convert.tensor(offsets_are_new ? fault_records() : at::Tensor());
  op(arguments, convert.tensor(values), convert.tensor_list(offsets), records, convert.int_array(max_lengths), padding,
     convert.tensor(dense), records);
}

void run_dense_to_jagged(const at::Tensor& dense, at::TensorList offsets, int64_t total_length,
                         const at::Tensor& values, bool offsets_are_new) {
  static const aclnn::Operator<const aclTensor*, const aclTensorList*, const aclTensor*, int64_t, const aclTensor*,
                               const aclTensor*>
      op("aclnnDenseToJagged");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  const aclTensor* records = convert.tensor(offsets_are_new ? fault_records() : at::Tensor());
  op(arguments, convert.tensor(dense), convert.tensor_list(offsets), records, total_length, convert.tensor(values),
     records);
}

// values [L, trailing...] -> [B, S1..SK, trailing...]; rows beyond the data hold padding_value.
at::Tensor pad(const char* op, const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
               double padding_value, bool offsets_are_new) {
  const auto shape = concrete(dense_shape(op, values, offsets, c10::fromIntArrayRefSlow(max_lengths)));
  const int64_t padding = padding_bits(op, values.scalar_type(), padding_value);
  const c10::DeviceGuard guard(values.device());
  at::Tensor dense = at::empty(shape, values.options());
  if (dense.numel() == 0) return dense;
  if (values.numel() == 0) return dense.fill_(scalar_of(values.scalar_type(), padding));

  const at::IntArrayRef sizes(shape);
  const size_t outer = 1 + offsets.size();
  const at::IntArrayRef inner = sizes.slice(outer);
  run_jagged_to_padded_dense(as_rows(values.contiguous(), values.sizes().slice(0, 1), inner), contiguous(offsets),
                             max_lengths, padding, as_rows(dense, sizes.slice(0, outer), inner), offsets_are_new);
  return dense;
}

// dense [B, S1..SK, trailing...] -> [total_length, trailing...]; rows that dense does not hold are zero.
at::Tensor unpad(const char* op, const at::Tensor& dense, at::TensorList offsets, int64_t total_length,
                 bool offsets_are_new) {
  const auto shape = concrete(jagged_shape(op, dense, offsets, total_length));
  const c10::DeviceGuard guard(dense.device());
  const at::IntArrayRef sizes(shape);
  if (c10::multiply_integers(sizes) == 0) return at::empty(shape, dense.options());
  if (dense.numel() == 0) return at::zeros(shape, dense.options());

  at::Tensor values = at::empty(shape, dense.options());
  const at::IntArrayRef inner = sizes.slice(1);
  run_dense_to_jagged(as_rows(dense.contiguous(), dense.sizes().slice(0, 1 + offsets.size()), inner),
                      contiguous(offsets), total_length, as_rows(values, sizes.slice(0, 1), inner), offsets_are_new);
  return values;
}

// offsets[-1][-1].
int64_t read_total_length(const char* op, const at::Tensor& dense, at::TensorList offsets) {
  check_dense(op, dense, offsets);
  return read_back(offsets.back().select(0, -1));
}

// MXREC_CHECK=1: raises if the contents of offsets are inconsistent. rows: as in check_offset_values.
void check_values_if_enabled(const char* op, at::TensorList offsets, std::optional<int64_t> rows) {
  if (!value_checks_enabled()) return;
  std::vector<at::Tensor> host;
  for (const at::Tensor& offset : offsets) host.push_back(offset.cpu());
  check_offset_values(op, host, rows);
}

at::Tensor jagged_to_padded_dense(const at::Tensor& values, const TensorVector& offsets, at::IntArrayRef max_lengths,
                                  double padding_value) {
  constexpr const char* op = "jagged_to_padded_dense";
  dense_shape(op, values, offsets, c10::fromIntArrayRefSlow(max_lengths));
  check_values_if_enabled(op, offsets, values.size(0));
  return pad(op, values, offsets, max_lengths, padding_value, /*offsets_are_new=*/true);
}

at::Tensor jagged_to_padded_dense_backward(const at::Tensor& grad, const TensorVector& offsets, int64_t total_length) {
  return unpad("jagged_to_padded_dense_backward", grad, offsets, total_length, /*offsets_are_new=*/false);
}

at::Tensor dense_to_jagged_forward(const at::Tensor& dense, const TensorVector& offsets,
                                   std::optional<int64_t> total_length) {
  constexpr const char* op = "dense_to_jagged";
  check_dense(op, dense, offsets);
  check_values_if_enabled(op, offsets, std::nullopt);
  return unpad(op, dense, offsets, total_length ? *total_length : read_total_length(op, dense, offsets),
               /*offsets_are_new=*/true);
}

std::tuple<at::Tensor, TensorVector> dense_to_jagged(const at::Tensor& dense, const TensorVector& offsets,
                                                     std::optional<int64_t> total_length) {
  return {dense_to_jagged_forward(dense, offsets, total_length), offsets};
}

// grad may have fewer rows than offsets address (total_L was smaller): those cells get padding_value.
at::Tensor dense_to_jagged_backward(const at::Tensor& grad, const TensorVector& offsets, at::IntArrayRef max_lengths,
                                    double padding_value) {
  return pad("dense_to_jagged_backward", grad, offsets, max_lengths, padding_value, /*offsets_are_new=*/false);
}

void register_npu(torch::Library& m) {
  m.impl("jagged_to_padded_dense", &jagged_to_padded_dense);
  m.impl("jagged_to_padded_dense_forward", &jagged_to_padded_dense);
  m.impl("jagged_to_padded_dense_backward", &jagged_to_padded_dense_backward);
  m.impl("dense_to_jagged", &dense_to_jagged);
  m.impl("dense_to_jagged_forward", &dense_to_jagged_forward);
  m.impl("dense_to_jagged_backward", &dense_to_jagged_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(fbgemm, PrivateUse1, m) { register_npu(m); }
TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) { register_npu(m); }

}  // namespace gr_ops::npu
