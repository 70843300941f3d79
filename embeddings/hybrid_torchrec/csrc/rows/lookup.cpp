#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <atomic>
#include <vector>

#include "row_math/bags.h"
#include "rows/types.h"

// Rows of a table by slots, one by one or pooled, in fp32 whatever the table's dtype.
namespace hybrid_torchrec {
namespace {

constexpr int64_t kPrefetchDistance = 32;  // rows

template <typename Row>
void gather(const Row* table, const int64_t* slots, int64_t count, int64_t width, float* out) {
  const auto& functions = row_kernels().of(table);
  const int64_t line = 64 / static_cast<int64_t>(sizeof(Row));
  for (int64_t k = 0; k < count; ++k) {
    if (k + kPrefetchDistance < count) {
      const Row* next = table + slots[k + kPrefetchDistance] * width;
      for (int64_t i = 0; i < width; i += line) __builtin_prefetch(next + i, 0, 2);  // as the pooling kernels do
    }
    functions.widen(table + slots[k] * width, out + k * width, width);
  }
}

at::Tensor gather_rows(const at::Tensor& weights, const at::Tensor& given) {
  constexpr const char* kOp = "gather_rows";
  check_rows(kOp, weights, given);
  const at::Tensor slots = given.contiguous();
  const int64_t* data = slots.const_data_ptr<int64_t>();
  const int64_t count = slots.numel();
  const int64_t width = weights.size(1);
  const at::Tensor out = at::empty({count, width}, weights.options().dtype(at::kFloat));
  float* target = out.mutable_data_ptr<float>();
  std::atomic<bool> valid{true};
  with_row_type(weights.scalar_type(), [&](auto* row) {
    const auto* table = row_data<std::remove_pointer_t<decltype(row)>>(weights);
    const int64_t chunks = row_math::chunks_for(count * width);
    at::parallel_for(0, chunks, 1, [&](int64_t from, int64_t to) {
      const int64_t first = count * from / chunks;
      const int64_t size = count * to / chunks - first;
      if (!row_kernels().valid(data + first, size, weights.size(0))) {
        valid = false;
        return;
      }
      gather(table, data + first, size, width, target + first * width);
    });
  });
  if (!valid) fail_slot(kOp, data, count, weights.size(0));
  return out;
}

at::Tensor pool_rows(const at::Tensor& weights, const at::Tensor& given, const at::Tensor& given_offsets, bool mean,
                     const std::optional<at::Tensor>& sample_weights) {
  constexpr const char* kOp = "pool_rows";
  check_rows(kOp, weights, given);
  const at::Tensor slots = given.contiguous();
  const at::Tensor offsets = given_offsets.contiguous();
  check_offsets(kOp, offsets, slots.numel());
  at::Tensor samples;
  if (sample_weights) {
    samples = sample_weights->to(at::kFloat).contiguous();
    TORCH_CHECK(samples.sizes() == slots.sizes(), kOp, ": weights of samples must have the shape of slots");
  }
  const int64_t* data = slots.const_data_ptr<int64_t>();
  const int64_t* starts = offsets.const_data_ptr<int64_t>();
  const float* scales = samples.defined() ? samples.const_data_ptr<float>() : nullptr;
  const int64_t bags = offsets.numel() - 1;
  const int64_t width = weights.size(1);
  const at::Tensor out = at::empty({bags, width}, weights.options().dtype(at::kFloat));
  float* target = out.mutable_data_ptr<float>();
  std::atomic<bool> valid{true};
  with_row_type(weights.scalar_type(), [&](auto* row) {
    const auto* table = row_data<std::remove_pointer_t<decltype(row)>>(weights);
    row_math::for_bags(starts, bags, width, [&](int64_t first, int64_t end) {
      if (!row_kernels().valid(data + starts[first], starts[end] - starts[first], weights.size(0))) {
        valid = false;
        return;
      }
      row_kernels().of(table).pool64(table, data, starts + first, end - first, width, width, scales, mean,
                                     target + first * width, width);
    });
  });
  if (!valid) fail_slot(kOp, data, slots.numel(), weights.size(0));
  return out;
}

// gradient[k] = dot(gradients of k's bag, row of k), divided by the bag's length for the mean.
at::Tensor sample_weight_gradients(const at::Tensor& weights, const at::Tensor& given, const at::Tensor& given_offsets,
                                   const at::Tensor& given_gradients, bool mean) {
  constexpr const char* kOp = "sample_weight_gradients";
  check_rows(kOp, weights, given);
  const at::Tensor slots = given.contiguous();
  const at::Tensor offsets = given_offsets.contiguous();
  check_offsets(kOp, offsets, slots.numel());
  const at::Tensor gradients = given_gradients.to(at::kFloat).contiguous();
  const int64_t bags = offsets.numel() - 1;
  const int64_t width = weights.size(1);
  TORCH_CHECK(gradients.dim() == 2 && gradients.size(0) == bags && gradients.size(1) == width, kOp,
              ": gradients must be (B, D) = (", bags, ", ", width, "), got ", gradients.sizes());
  const int64_t* data = slots.const_data_ptr<int64_t>();
  const int64_t* starts = offsets.const_data_ptr<int64_t>();
  const auto& kernels = row_kernels();
  if (!kernels.valid(data, slots.numel(), weights.size(0))) fail_slot(kOp, data, slots.numel(), weights.size(0));
  const at::Tensor out = at::empty({slots.numel()}, gradients.options());
  float* target = out.mutable_data_ptr<float>();
  with_row_type(weights.scalar_type(), [&](auto* row) {
    const auto* table = row_data<std::remove_pointer_t<decltype(row)>>(weights);
    row_math::for_bags(starts, bags, width, [&](int64_t first, int64_t end) {
      std::vector<float> wide(static_cast<size_t>(width));
      for (int64_t bag = first; bag < end; ++bag) {
        const float* gradient = gradients.const_data_ptr<float>() + bag * width;
        const float scale = mean ? 1.0f / static_cast<float>(starts[bag + 1] - starts[bag]) : 1.0f;
        for (int64_t k = starts[bag]; k < starts[bag + 1]; ++k) {
          kernels.of(table).widen(table + data[k] * width, wide.data(), width);
          target[k] = scale * kernels.dot(gradient, wide.data(), width);
        }
      }
    });
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(hybrid_torchrec, CPU, m) {
  m.impl("gather_rows", &gather_rows);
  m.impl("pool_rows", &pool_rows);
  m.impl("sample_weight_gradients", &sample_weight_gradients);
}

}  // namespace hybrid_torchrec
