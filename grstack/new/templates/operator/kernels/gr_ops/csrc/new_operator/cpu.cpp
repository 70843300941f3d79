#include <ATen/Dispatch.h>
#include <torch/library.h>

#include "common/parallel.h"
#include "common/result.h"
#include "new_operator/checks.h"

namespace gr_ops::new_operator {
namespace {

template <typename T>
void multiply(const T* x, float factor, T* y, int64_t count) {
  parallel_rows(count, sizeof(T), [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) y[i] = static_cast<T>(static_cast<float>(x[i]) * factor);
  });
}

at::Tensor cpu(const at::Tensor& x, double factor) {
  check(x);
  const at::Tensor source = x.contiguous();
  at::Tensor y = new_result(x.sizes(), source.options());
  AT_DISPATCH_FLOATING_TYPES_AND(at::kHalf, x.scalar_type(), kOp, [&] {
    multiply(source.const_data_ptr<scalar_t>(), static_cast<float>(factor), y.mutable_data_ptr<scalar_t>(), x.numel());
  });
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { m.impl(kOp, &cpu); }

}  // namespace gr_ops::new_operator
