#include "npu/jagged.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/accumulate.h>

#include <cstring>

#include "common/checks.h"
#include "npu/aclnn/operator.h"

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

void run_jagged_to_padded_dense(const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
                                int64_t padding, const at::Tensor& dense) {
  static const aclnn::Operator<const aclTensor*, const aclTensorList*, const aclIntArray*, int64_t, const aclTensor*>
      op("aclnnJaggedToPaddedDense");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  op(arguments, convert.tensor(values), convert.tensor_list(offsets), convert.int_array(max_lengths), padding,
     convert.tensor(dense));
}

void run_dense_to_jagged(const at::Tensor& dense, at::TensorList offsets, int64_t total_length,
                         const at::Tensor& values) {
  static const aclnn::Operator<const aclTensor*, const aclTensorList*, int64_t, const aclTensor*> op(
      "aclnnDenseToJagged");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  op(arguments, convert.tensor(dense), convert.tensor_list(offsets), total_length, convert.tensor(values));
}

}  // namespace

at::Tensor pad(const char* op, const at::Tensor& values, at::TensorList offsets, at::IntArrayRef max_lengths,
               double padding_value) {
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
                             max_lengths, padding, as_rows(dense, sizes.slice(0, outer), inner));
  return dense;
}

at::Tensor unpad(const char* op, const at::Tensor& dense, at::TensorList offsets, int64_t total_length) {
  const auto shape = concrete(jagged_shape(op, dense, offsets, total_length));
  const c10::DeviceGuard guard(dense.device());
  const at::IntArrayRef sizes(shape);
  if (c10::multiply_integers(sizes) == 0) return at::empty(shape, dense.options());
  if (dense.numel() == 0) return at::zeros(shape, dense.options());

  at::Tensor values = at::empty(shape, dense.options());
  const at::IntArrayRef inner = sizes.slice(1);
  run_dense_to_jagged(as_rows(dense.contiguous(), dense.sizes().slice(0, 1 + offsets.size()), inner),
                      contiguous(offsets), total_length, as_rows(values, sizes.slice(0, 1), inner));
  return values;
}

int64_t read_total_length(const char* op, const at::Tensor& dense, at::TensorList offsets) {
  check_dense(op, dense, offsets);
  return offsets.back().select(0, -1).item().toLong();
}

void check_values_if_enabled(const char* op, at::TensorList offsets, std::optional<int64_t> rows) {
  if (!value_checks_enabled()) return;
  std::vector<at::Tensor> host;
  for (const at::Tensor& offset : offsets) host.push_back(offset.cpu());
  check_offset_values(op, host, rows);
}

}  // namespace gr_ops::npu
