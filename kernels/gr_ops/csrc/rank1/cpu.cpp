#include <ATen/Dispatch.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "common/parallel.h"
#include "common/result.h"
#include "common/wide.h"
#include "rank1/checks.h"
#include "rank1/pick.h"

namespace gr_ops::cpu {
namespace {

constexpr const char* kGather = "gather_for_rank1";
constexpr const char* kBackward = "index_select_for_rank1_backward";
constexpr int64_t kBlock = 1024;  // entries that are checked and then used while they are in the cache

template <typename Body>
void for_blocks(int64_t first, int64_t end, const Body& body) {
  for (int64_t start = first; start < end; start += kBlock) body(start, std::min(start + kBlock, end));
}

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

constexpr int64_t kMaxSlices = 16;        // every slice reads the whole index
constexpr int64_t kSliceEntries = 32768;  // of index, below which one thread does it all

// sums[index[i]] += grad[i], for ascending i whatever the number of threads: each owns a slice of x, which nobody else
// writes to, and picks its entries of the index. sums is not initialised.
template <typename T, typename Index>
void add_by_index(const T* grad, const Index* index, int64_t count, Wide<T>* sums, int64_t length) {
  const int64_t wanted = std::min<int64_t>({at::get_num_threads(), kMaxSlices, count / kSliceEntries, length});
  if (wanted < 2 || at::in_parallel_region()) {
    std::fill_n(sums, length, Wide<T>(0));
    for_blocks(0, count, [&](int64_t first, int64_t end) {
      check_entries_in_range(kBackward, index, first, end, length);
      for (int64_t i = first; i < end; ++i) sums[index[i]] += static_cast<Wide<T>>(grad[i]);
    });
    return;
  }
  std::atomic<int64_t> used{0};
  at::parallel_for(0, wanted, 1, [&](int64_t first, int64_t end) {
    const int64_t low = length * first / wanted;
    const int64_t high = length * end / wanted;
    std::fill_n(sums + low, high - low, Wide<T>(0));
    int32_t picked[kBlock + kPickSpill];
    int64_t sum = 0;
    for_blocks(0, count, [&](int64_t from, int64_t to) {
      const int64_t mine = pick_in_range(index + from, to - from, low, high - low, picked);
      for (int64_t k = 0; k < mine; ++k) {
        const int64_t i = from + picked[k];
        sums[index[i]] += static_cast<Wide<T>>(grad[i]);
      }
      sum += mine;
    });
    used += sum;
  });
  // An entry outside of x is in no slice.
  if (used != count) check_entries_in_range(kBackward, index, 0, count, length);
}

template <typename T>
void sum_by_index(const at::Tensor& grad, const at::Tensor& index, Wide<T>* sums, int64_t length) {
  if (index.scalar_type() == at::kInt) {
    add_by_index(grad.const_data_ptr<T>(), index.const_data_ptr<int32_t>(), index.numel(), sums, length);
  } else {
    add_by_index(grad.const_data_ptr<T>(), index.const_data_ptr<int64_t>(), index.numel(), sums, length);
  }
}

// Sums of 16-bit types are rounded once, at the end.
template <typename T>
void gradient(const at::Tensor& grad, const at::Tensor& index, T* target, int64_t length) {
  if constexpr (kHalfWidth<T>) {
    const std::unique_ptr<float[]> sums(new float[static_cast<size_t>(length)]);
    sum_by_index<T>(grad, index, sums.get(), length);
    for (int64_t j = 0; j < length; ++j) target[j] = static_cast<T>(sums[j]);
  } else {
    sum_by_index<T>(grad, index, target, length);
  }
}

at::Tensor zeros_like_index(const at::Tensor& index) {
  const at::Tensor zeros = new_result(index.sizes(), index.options());
  auto* data = static_cast<char*>(zeros.mutable_data_ptr());
  parallel_rows(zeros.numel() * static_cast<int64_t>(zeros.itemsize()), 1,
                [=](int64_t first, int64_t end) { std::memset(data + first, 0, static_cast<size_t>(end - first)); });
  return zeros;
}

// [gradX, gradIndex]; gradIndex is zero and stands there for the signature only.
std::vector<at::Tensor> index_select_for_rank1_backward(const at::Tensor& grad, const at::Tensor& x,
                                                        const at::Tensor& index) {
  check_gather_grad(kBackward, grad, x, index);
  const at::Tensor entries = index.contiguous();
  const at::Tensor source = grad.contiguous();
  at::Tensor grad_x = new_result(x.sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES_AND3(at::kHalf, at::kBFloat16, at::kComplexFloat, x.scalar_type(), kBackward,
                                  [&] { gradient(source, entries, grad_x.mutable_data_ptr<scalar_t>(), x.size(0)); });
  return {grad_x, zeros_like_index(index)};
}

void register_cpu(torch::Library& m) {
  m.impl("gather_for_rank1", &gather_for_rank1);
  m.impl("index_select_for_rank1_backward", &index_select_for_rank1_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { register_cpu(m); }
TORCH_LIBRARY_IMPL(fbgemm, CPU, m) { register_cpu(m); }

}  // namespace gr_ops::cpu
