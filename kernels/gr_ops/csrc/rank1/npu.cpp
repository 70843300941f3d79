#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <vector>

#include "aclnn/operator.h"
#include "common/settings.h"
#include "rank1/checks.h"

namespace gr_ops::npu {
namespace {

// Sums over a longer x need the index in order: a core then reads the entries of its slice only.
constexpr int64_t kLongestUnsorted = 24576;

// The operator moves bits and declares a dtype for each of these widths.
at::ScalarType type_of_width(size_t width) {
  switch (width) {
    case 2:
      return at::kHalf;
    case 4:
      return at::kFloat;
    default:
      return at::kLong;
  }
}

// x and index are contiguous; y has the dtype of x and the shape of index.
at::Tensor run_gather(const at::Tensor& x, const at::Tensor& index) {
  static const aclnn::Operator<const aclTensor*, const aclTensor*, const aclTensor*> run("aclnnGatherForRank1");
  at::Tensor y = at::empty(index.sizes(), x.options());
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  const at::ScalarType type = type_of_width(x.itemsize());
  run(arguments, convert.tensor_as(x, type), convert.tensor(index), convert.tensor_as(y, type));
  return y;
}

// No index is right for an empty x, which the host knows.
void check_index_if_enabled(const char* op, const at::Tensor& index, int64_t length) {
  if (value_checks_enabled() || length == 0) check_gather_index(op, index.cpu().contiguous(), length);
}

at::Tensor gather_for_rank1(const at::Tensor& x, const at::Tensor& index) {
  constexpr const char* op = "gather_for_rank1";
  check_gather(op, x, index);
  check_index_if_enabled(op, index, x.size(0));
  const c10::DeviceGuard guard(x.device());
  if (index.numel() == 0) return at::empty(index.sizes(), x.options());
  if (x.itemsize() > 1) return run_gather(x.contiguous(), index.contiguous());
  return run_gather(x.to(at::kInt), index.contiguous()).to(x.scalar_type());
}

// The vector cores' sums: x in float32, float16 or bfloat16. Neither is empty.
std::vector<at::Tensor> run_gather_grad(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& index) {
  at::Tensor entries = index.contiguous();
  at::Tensor grad_y = grad.contiguous();
  const bool sorted = x.size(0) > kLongestUnsorted;
  if (sorted) {
    const auto [ascending, order] = at::sort(entries.view({-1}), /*stable=*/true, /*dim=*/0, /*descending=*/false);
    entries = ascending.contiguous();
    grad_y = run_gather(grad_y.view({-1}), order.contiguous());
  }
  at::Tensor grad_x = at::empty(x.sizes(), x.options());
  at::Tensor grad_index = at::empty(index.sizes(), index.options());
  static const aclnn::Operator<const aclTensor*, const aclTensor*, const aclTensor*, bool, const aclTensor*,
                               const aclTensor*>
      run("aclnnIndexSelectForRank1Backward");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  const at::Tensor shape_of_x = x.contiguous();
  run(arguments, convert.tensor(grad_y), convert.tensor(shape_of_x), convert.tensor(entries), sorted,
      convert.tensor(grad_x), convert.tensor(grad_index.view(entries.sizes())));
  return {grad_x, grad_index};
}

// The cores have no double arithmetic: these sums are made on the host, in the order of the entries.
at::Tensor sums_on_host(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& index) {
  const at::Tensor values = grad.cpu().contiguous();
  const at::Tensor entries = index.cpu().to(at::kLong).contiguous();
  at::Tensor sums = at::zeros(x.sizes(), values.options());
  const auto* value = values.const_data_ptr<double>();
  const auto* entry = entries.const_data_ptr<int64_t>();
  auto* sum = sums.mutable_data_ptr<double>();
  for (int64_t i = 0; i < entries.numel(); ++i) {
    if (entry[i] >= 0 && entry[i] < sums.numel()) sum[entry[i]] += value[i];
  }
  return sums.to(x.device());
}

// [gradX, gradIndex]; gradIndex is zero and stands there for the signature only.
std::vector<at::Tensor> index_select_for_rank1_backward(const at::Tensor& grad, const at::Tensor& x,
                                                        const at::Tensor& index) {
  constexpr const char* op = "index_select_for_rank1_backward";
  check_gather_grad(op, grad, x, index);
  check_index_if_enabled(op, index, x.size(0));
  const c10::DeviceGuard guard(x.device());
  if (index.numel() == 0) {
    return {at::zeros(x.sizes(), x.options()), at::zeros(index.sizes(), index.options())};
  }
  if (x.scalar_type() == at::kDouble) {
    return {sums_on_host(grad, x, index), at::zeros(index.sizes(), index.options())};
  }
  if (x.scalar_type() != at::kComplexFloat) return run_gather_grad(grad, x, index);
  // Real and imaginary parts are sums of their own.
  at::Tensor grad_x = at::empty(x.sizes(), x.options());
  const at::Tensor parts = grad_x.view(at::kFloat).view({-1, 2});
  const at::Tensor grad_parts = grad.contiguous().view({-1}).view(at::kFloat).view({-1, 2});
  for (const int64_t part : {0, 1}) {
    const at::Tensor target = parts.select(1, part);
    const at::Tensor values = grad_parts.select(1, part).contiguous().view(index.sizes());
    target.copy_(run_gather_grad(values, at::empty(x.sizes(), x.options().dtype(at::kFloat)), index)[0]);
  }
  return {grad_x, at::zeros(index.sizes(), index.options())};
}

void register_npu(torch::Library& m) {
  m.impl("gather_for_rank1", &gather_for_rank1);
  m.impl("index_select_for_rank1_backward", &index_select_for_rank1_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) { register_npu(m); }
TORCH_LIBRARY_IMPL(fbgemm, PrivateUse1, m) { register_npu(m); }

}  // namespace gr_ops::npu
