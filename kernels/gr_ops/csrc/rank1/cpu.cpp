#include <ATen/Dispatch.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <vector>

#include "common/parallel.h"
#include "common/result.h"
#include "rank1/checks.h"
#include "rank1/cpu_sums.h"

namespace gr_ops::cpu {
namespace {

constexpr const char* kGather = "gather_for_rank1";
constexpr const char* kBackward = "index_select_for_rank1_backward";

// The dtypes do not matter, their widths do. Each entry is checked just before its use: a branch that is never taken
// lets the processor run ahead over elements of x that are not in the cache, a pass of checks would not.
template <typename Word, typename Index>
void gather(const void* x, int64_t length, const Index* index, void* y, int64_t count) {
  const auto* __restrict from = static_cast<const Word*>(x);
  auto* __restrict to = static_cast<Word*>(y);
  parallel_rows(count, sizeof(Word) + sizeof(Index), [=](int64_t first, int64_t end) {
#pragma GCC unroll 8
    for (int64_t i = first; i < end; ++i) {
      const auto entry = static_cast<int64_t>(index[i]);
      if (static_cast<uint64_t>(entry) >= static_cast<uint64_t>(length)) fail_entry(kGather, i, entry, length);
      to[i] = from[entry];
    }
  });
}

template <typename Index>
void gather(const at::Tensor& x, const Index* index, const at::Tensor& y) {
  const void* from = x.const_data_ptr();
  void* to = y.mutable_data_ptr();
  switch (x.itemsize()) {
    case 1:
      return gather<uint8_t>(from, x.numel(), index, to, y.numel());
    case 2:
      return gather<uint16_t>(from, x.numel(), index, to, y.numel());
    case 4:
      return gather<uint32_t>(from, x.numel(), index, to, y.numel());
    default:
      return gather<uint64_t>(from, x.numel(), index, to, y.numel());
  }
}

at::Tensor gather_for_rank1(const at::Tensor& x, const at::Tensor& index) {
  check_gather(kGather, x, index);
  at::Tensor y = new_result(index.sizes(), x.options());
  if (y.numel() == 0) return y;
  const at::Tensor entries = index.contiguous();
  const at::Tensor source = x.contiguous();
  if (index.scalar_type() == at::kInt) {
    gather(source, entries.const_data_ptr<int32_t>(), y);
  } else {
    gather(source, entries.const_data_ptr<int64_t>(), y);
  }
  return y;
}

at::Tensor index_select_backward(const at::Tensor& grad, const at::Tensor& index, const at::Tensor& x) {
  at::Tensor grad_x = new_result(x.sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES_AND3(at::kHalf, at::kBFloat16, at::kComplexFloat, x.scalar_type(), kBackward, [&] {
    auto* target = grad_x.mutable_data_ptr<scalar_t>();
    if (index.scalar_type() == at::kInt) {
      sum_by_index<scalar_t, int32_t>(kBackward, grad, index, target, x.size(0));
    } else {
      sum_by_index<scalar_t, int64_t>(kBackward, grad, index, target, x.size(0));
    }
  });
  return grad_x;
}

// [gradX, gradIndex]; gradIndex is zero and stands there for the signature only.
std::vector<at::Tensor> index_select_for_rank1_backward(const at::Tensor& grad, const at::Tensor& x,
                                                        const at::Tensor& index) {
  check_gather_grad(kBackward, grad, x, index);
  return {index_select_backward(grad.contiguous(), index.contiguous(), x), at::zeros(index.sizes(), index.options())};
}

void register_cpu(torch::Library& m) {
  m.impl("gather_for_rank1", &gather_for_rank1);
  m.impl("index_select_for_rank1_backward", &index_select_for_rank1_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { register_cpu(m); }
TORCH_LIBRARY_IMPL(fbgemm, CPU, m) { register_cpu(m); }

}  // namespace gr_ops::cpu
