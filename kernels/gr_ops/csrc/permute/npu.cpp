#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <vector>

#include "aclnn/operator.h"
#include "common/operators.h"
#include "common/settings.h"
#include "faults/npu_faults.h"
#include "permute/checks.h"

namespace gr_ops::npu {
namespace {

at::Tensor with_rows(const at::Tensor& like, int64_t rows) {
  std::vector<int64_t> shape = like.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, like.options());
}

// The operator moves bits and declares one dtype for each width.
at::ScalarType type_of_width(const at::Tensor& tensor) {
  switch (tensor.itemsize()) {
    case 1:
      return at::kChar;
    case 2:
      return at::kHalf;
    case 4:
      return at::kFloat;
    default:
      return at::kLong;
  }
}

// Starts of the blocks, on the device. An entry of permute that names no feature has an empty block.
struct DeviceOffsets {
  at::Tensor in;   // [T + 1]
  at::Tensor out;  // [P + 1]
};

DeviceOffsets device_offsets(const at::Tensor& permute, const at::Tensor& lengths) {
  static const auto cumsum = find_operator<at::Tensor(const at::Tensor&)>("mxrec::asynchronous_complete_cumsum");
  static const auto gather = find_operator<at::Tensor(const at::Tensor&, const at::Tensor&)>("mxrec::gather_for_rank1");
  const at::Tensor longs = lengths.to(at::kLong);
  const at::Tensor sums = longs.dim() == 2 ? longs.sum(1) : longs;
  return {cumsum.call(sums), cumsum.call(gather.call(sums, permute))};
}

// Whether the contents are checked: on request, and where there are no features, so that no entry of permute is right.
bool reads_values(const at::Tensor& lengths) { return value_checks_enabled() || lengths.size(0) == 0; }

// No copy has more rows than values has.
bool can_be_total(int64_t total, int64_t rows, int64_t copies) {
  if (rows == 0 || total <= 0) return total == 0;
  return total / rows + (total % rows == 0 ? 0 : 1) <= copies;
}

using Permuted = std::tuple<at::Tensor, at::Tensor, std::optional<at::Tensor>>;

// weights: of four bytes, or undefined. Outputs are written whole. records: where faults are told, or undefined.
void run_permute(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                 const at::Tensor& weights, const DeviceOffsets& offsets, const at::Tensor& out_lengths,
                 const at::Tensor& out_values, const at::Tensor& out_weights, const at::Tensor& records) {
  static const aclnn::Operator<const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*,
                               const aclTensor*, const aclTensor*, int64_t, const aclTensor*, const aclTensor*,
                               const aclTensor*, const aclTensor*>
      op("aclnnPermute2dSparseData");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  const at::ScalarType type = type_of_width(values);
  const aclTensor* given_weights = weights.defined() ? convert.tensor_as(weights, at::kFloat) : nullptr;
  const aclTensor* faults = convert.tensor(records);
  op(arguments, convert.tensor(permute), convert.tensor(lengths), convert.tensor_as(values, type), given_weights,
     convert.tensor(offsets.in), convert.tensor(offsets.out), faults, out_values.size(0), convert.tensor(out_lengths),
     convert.tensor_as(out_values, type), convert.tensor_as(out_weights, at::kFloat), faults);
}

Permuted permute_sparse_data(const char* op, int64_t rank, const at::Tensor& permute, const at::Tensor& lengths,
                             const at::Tensor& values, const std::optional<at::Tensor>& weights,
                             const std::optional<int64_t>& permuted_sum) {
  check_permute(op, permute, lengths, values, weights, permuted_sum, rank);
  const auto check_contents = [&] {
    check_permute_sums(op, permute_offsets(op, permute.cpu(), lengths.cpu()), values.size(0), permuted_sum);
  };
  if (reads_values(lengths)) check_contents();
  const c10::DeviceGuard guard(values.device());
  const at::Tensor entries = permute.contiguous();
  const at::Tensor rows = lengths.contiguous();
  const DeviceOffsets offsets = device_offsets(entries, rows);
  const int64_t total = permuted_sum ? *permuted_sum : read_back(offsets.out.select(0, -1));
  // Memory is not asked for what cannot be; the wait is one more before an error.
  if (!can_be_total(total, values.size(0), permute.size(0))) check_contents();

  at::Tensor out_lengths = with_rows(lengths, entries.size(0));
  at::Tensor out_values = with_rows(values, total);
  std::optional<at::Tensor> out_weights;
  if (weights) out_weights = with_rows(*weights, total);
  const at::Tensor none;
  const at::Tensor empty = at::empty({0}, values.options().dtype(at::kFloat));
  const bool together = weights && weights->itemsize() == sizeof(float);
  if (out_lengths.numel() > 0 || out_values.numel() > 0 || (together && out_weights->numel() > 0)) {
    run_permute(entries, rows, values.contiguous(), together ? weights->contiguous() : none, offsets, out_lengths,
                out_values, together ? *out_weights : empty, fault_records());
  }
  if (weights && !together && out_weights->numel() > 0) {
    run_permute(entries, rows, weights->contiguous(), none, offsets, at::empty_like(out_lengths), *out_weights, empty,
                none);
  }
  return {std::move(out_lengths), std::move(out_values), std::move(out_weights)};
}

Permuted permute_2D_sparse_data(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                                const std::optional<at::Tensor>& weights, std::optional<int64_t> permuted_sum) {
  return permute_sparse_data("permute_2D_sparse_data", 2, permute, lengths, values, weights, permuted_sum);
}

Permuted permute_1D_sparse_data(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& values,
                                const std::optional<at::Tensor>& weights, std::optional<int64_t> permuted_sum) {
  return permute_sparse_data("permute_1D_sparse_data", 1, permute, lengths, values, weights, permuted_sum);
}

// The vector cores' sums: [rows, D] gradients in float32, float16 or bfloat16.
void add_copies(const at::Tensor& entries, const DeviceOffsets& offsets, const at::Tensor& grad,
                const at::Tensor& result) {
  const auto [sorted, order] = at::sort(entries, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  static const aclnn::Operator<const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*,
                               const aclTensor*, int64_t, const aclTensor*, const aclTensor*>
      run("aclnnPermute2dSparseDataGrad");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  const at::Tensor sorted_entries = sorted.contiguous();
  const at::Tensor positions = order.contiguous();
  const aclTensor* faults = convert.tensor(fault_records());
  run(arguments, convert.tensor(grad), convert.tensor(sorted_entries), convert.tensor(positions),
      convert.tensor(offsets.in), convert.tensor(offsets.out), faults, result.size(0), convert.tensor(result), faults);
}

// rounds[r][t]: the r-th copy of feature t, -1 where there are fewer.
std::vector<at::Tensor> copies_by_round(const at::Tensor& entries, int64_t features) {
  const at::Tensor host = entries.cpu();
  const auto* entry = host.const_data_ptr<int64_t>();
  std::vector<int64_t> copies(features, 0);
  std::vector<at::Tensor> rounds;
  for (int64_t p = 0; p < host.numel(); ++p) {
    const int64_t t = entry[p];
    if (t < 0 || t >= features) continue;
    const auto round = static_cast<size_t>(copies[t]++);
    if (round == rounds.size()) rounds.push_back(at::full({features}, -1, host.options()));
    rounds[round].mutable_data_ptr<int64_t>()[t] = p;
  }
  for (at::Tensor& round : rounds) round = round.to(entries.device());
  return rounds;
}

// The cores have no double arithmetic. Copies are moved by the permutation's own kernel, one of each feature at a time,
// and added by PyTorch, in the same order as the sums of the other types.
void add_moved_copies(const at::Tensor& entries, int64_t features, const DeviceOffsets& offsets, const at::Tensor& grad,
                      const at::Tensor& result) {
  result.zero_();
  const at::Tensor none;
  const at::Tensor unused_lengths = at::zeros({entries.size(0)}, entries.options());
  const at::Tensor unused_counts = at::empty({features}, entries.options());
  const at::Tensor unused_weights = at::empty({0}, grad.options().dtype(at::kFloat));
  const DeviceOffsets reversed{offsets.out, offsets.in};
  for (const at::Tensor& copies : copies_by_round(entries, features)) {
    const at::Tensor moved = at::empty_like(result);
    run_permute(copies, unused_lengths, grad, none, reversed, unused_counts, moved, unused_weights, none);
    result.add_(moved);
  }
}

at::Tensor permute_sparse_data_backward(const at::Tensor& permute, const at::Tensor& lengths, const at::Tensor& grad,
                                        int64_t total) {
  constexpr const char* op = "permute_sparse_data_backward";
  check_permute_grad(op, permute, lengths, grad, total);
  if (reads_values(lengths)) {
    check_permute_grad_sums(op, permute_offsets(op, permute.cpu(), lengths.cpu()), grad.size(0), total);
  }
  const c10::DeviceGuard guard(grad.device());
  at::Tensor result = with_rows(grad, total);
  if (result.numel() == 0) return result;
  if (grad.numel() == 0) return result.zero_();

  const at::Tensor entries = permute.to(at::kLong).contiguous();
  const DeviceOffsets offsets = device_offsets(entries, lengths.contiguous());
  at::Tensor source = grad.contiguous().view({grad.size(0), -1});
  at::Tensor target = result.view({total, -1});
  if (grad.scalar_type() == at::kComplexFloat) {
    source = source.view(at::kFloat);
    target = target.view(at::kFloat);
  }
  if (grad.scalar_type() == at::kDouble) {
    add_moved_copies(entries, lengths.size(0), offsets, source, target);
  } else {
    add_copies(entries, offsets, source, target);
  }
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) {
  m.impl("permute_2D_sparse_data", &permute_2D_sparse_data);
  m.impl("permute_1D_sparse_data", &permute_1D_sparse_data);
  m.impl("permute_sparse_data_backward", &permute_sparse_data_backward);
}
TORCH_LIBRARY_IMPL(fbgemm, PrivateUse1, m) {
  m.impl("permute_2D_sparse_data", forward_to_mxrec());
  m.impl("permute_1D_sparse_data", forward_to_mxrec());
}

}  // namespace gr_ops::npu
