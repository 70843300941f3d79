#include <c10/core/DeviceGuard.h>

#include <memory>

#include "aclnn/operator.h"
#include "faults/npu_faults.h"
#include "hstu/npu_problem.h"
#include "hstu_relative/entries.h"

// On NPU tensors: HstuRelativeForward and HstuRelativeBackward, which make the bias tile by tile.
namespace gr_ops::hstu_relative {
namespace {

constexpr int64_t kMaxBuckets = 512;  // of the time table, in the operators

using TensorHandle = const aclTensor*;
using ForwardOperator =
    aclnn::Operator<TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle,
                    TensorHandle, TensorHandle, TensorHandle, TensorHandle, int64_t, int64_t, double, char*, int64_t,
                    double, int64_t, int64_t, int64_t, TensorHandle, TensorHandle>;
using BackwardOperator =
    aclnn::Operator<TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle,
                    TensorHandle, TensorHandle, TensorHandle, TensorHandle, int64_t, int64_t, double, char*, int64_t,
                    double, int64_t, int64_t, int64_t, TensorHandle, TensorHandle, TensorHandle, TensorHandle,
                    TensorHandle>;

char kJagged[] = "jagged";

TensorHandle handle(aclnn::Arguments& convert, const at::Tensor& tensor) {
  return tensor.defined() ? convert.tensor(tensor) : nullptr;
}

hstu::Problem make_problem(const hstu::Arguments& a, const Tables& tables) {
  hstu::Problem p = hstu::make_npu_problem(a);
  TORCH_CHECK(tables.time.size(0) <= kMaxBuckets, a.op, ": time has ", tables.time.size(0),
              " buckets on the NPU; expected at most ", kMaxBuckets);
  return p;
}

at::Tensor forward(const hstu::Arguments& a, const Tables& given) {
  const c10::DeviceGuard guard(a.q.device());
  const hstu::Problem p = make_problem(a, given);
  const at::Tensor output = hstu::new_output(a);
  if (output.numel() == 0) return output;
  if (hstu::is_empty(p)) return output.zero_();
  const Tables tables{given.position.contiguous(), given.time.contiguous(), given.times.contiguous(),
                      given.cells.contiguous()};
  static const ForwardOperator op("aclnnHstuRelativeForward");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  const TensorHandle records = handle(convert, npu::fault_records());
  op(arguments, handle(convert, p.q), handle(convert, p.k), handle(convert, p.v), handle(convert, tables.position),
     handle(convert, tables.time), handle(convert, tables.times), handle(convert, tables.cells),
     handle(convert, p.q_offsets), handle(convert, p.num_context), handle(convert, p.num_target), records,
     static_cast<int64_t>(p.mask_type), p.max_k, p.scale, kJagged, p.group, p.alpha, p.max_attn_len,
     p.min_full_attn_len, p.window_size, handle(convert, output), records);
  return output;
}

Gradients backward(const hstu::Arguments& a, const Tables& given) {
  const c10::DeviceGuard guard(a.q.device());
  const hstu::Problem p = make_problem(a, given);
  const Gradients gradients = new_gradients(a, given);
  const auto& [q, k, v, position, time] = gradients;
  if (hstu::is_empty(p) || q.numel() == 0) {
    for (const at::Tensor& tensor : {q, k, v, position, time}) tensor.zero_();
    return gradients;
  }
  const Tables tables{given.position.contiguous(), given.time.contiguous(), given.times.contiguous(),
                      given.cells.contiguous()};
  static const BackwardOperator op("aclnnHstuRelativeBackward");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  op(arguments, handle(convert, p.grad), handle(convert, p.q), handle(convert, p.k), handle(convert, p.v),
     handle(convert, tables.position), handle(convert, tables.time), handle(convert, tables.times),
     handle(convert, tables.cells), handle(convert, p.q_offsets), handle(convert, p.num_context),
     handle(convert, p.num_target), static_cast<int64_t>(p.mask_type), p.max_k, p.scale, kJagged, p.group, p.alpha,
     p.max_attn_len, p.min_full_attn_len, p.window_size, handle(convert, q), handle(convert, k), handle(convert, v),
     handle(convert, position), handle(convert, time));
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) { Entries<&forward, &backward>::register_in(m); }

}  // namespace gr_ops::hstu_relative
