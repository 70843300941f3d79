#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <initializer_list>

#include "aclnn/operator.h"
#include "faults/npu_faults.h"
#include "hstu/entries.h"
#include "hstu/npu_problem.h"

// The HSTU operators on NPU tensors: HstuDenseForward and HstuDenseBackward, which know every form of the problem.
namespace gr_ops::hstu {
namespace {

using TensorHandle = const aclTensor*;
using ForwardOperator =
    aclnn::Operator<TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle,
                    TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle,
                    int64_t, int64_t, double, char*, int64_t, double, int64_t, int64_t, int64_t, TensorHandle,
                    TensorHandle>;
using BackwardOperator =
    aclnn::Operator<TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle, TensorHandle,
                    TensorHandle, TensorHandle, TensorHandle, int64_t, int64_t, double, char*, int64_t, double, int64_t,
                    int64_t, int64_t, TensorHandle, TensorHandle, TensorHandle, TensorHandle>;

char kNormal[] = "normal";
char kJagged[] = "jagged";

TensorHandle handle(aclnn::Arguments& convert, const at::Tensor& tensor) {
  return tensor.defined() ? convert.tensor(tensor) : nullptr;
}

// The normal layout has four dimensions where the problem has three.
at::Tensor in_layout(const Problem& p, const at::Tensor& tensor) {
  if (p.q_offsets.defined() || !tensor.defined()) return tensor;
  return tensor.view({p.batch, p.max_q, tensor.size(1), tensor.size(2)});
}

at::Tensor forward(const Arguments& a) {
  const c10::DeviceGuard guard(a.q.device());
  const bool separate_keys = a.offsets_k.defined();
  Problem p = make_npu_problem(a);
  const at::Tensor output = new_output(a);
  if (output.numel() == 0) return output;
  if (is_empty(p)) return output.zero_();
  static const ForwardOperator op("aclnnHstuDenseForward");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  const TensorHandle records = handle(convert, npu::fault_records());
  op(arguments, handle(convert, in_layout(p, p.q)), handle(convert, in_layout(p, p.k)),
     handle(convert, in_layout(p, p.v)), handle(convert, p.mask), handle(convert, p.bias), handle(convert, p.q_offsets),
     separate_keys ? handle(convert, p.k_offsets) : nullptr, handle(convert, p.num_context),
     handle(convert, p.num_target), handle(convert, p.kv_cache), handle(convert, p.page_offsets),
     handle(convert, p.page_ids), handle(convert, p.last_page_len), records, static_cast<int64_t>(p.mask_type), p.max_k,
     p.scale, p.q_offsets.defined() ? kJagged : kNormal, p.group, p.alpha, p.max_attn_len, p.min_full_attn_len,
     p.window_size, handle(convert, output), records);
  return output;
}

Gradients backward(const Arguments& a) {
  const c10::DeviceGuard guard(a.q.device());
  const bool separate_keys = a.offsets_k.defined();
  Problem p = make_npu_problem(a);
  const Gradients gradients = new_gradients(a);
  const auto& [q_grad, k_grad, v_grad, bias_grad] = gradients;
  if (is_empty(p) || (q_grad.numel() == 0 && k_grad.numel() == 0)) {
    for (const at::Tensor& tensor : {q_grad, k_grad, v_grad, bias_grad}) tensor.zero_();
    return gradients;
  }
  static const BackwardOperator op("aclnnHstuDenseBackward");
  auto arguments = std::make_shared<aclnn::Arguments>();
  aclnn::Arguments& convert = *arguments;
  op(arguments, handle(convert, in_layout(p, p.grad)), handle(convert, in_layout(p, p.q)),
     handle(convert, in_layout(p, p.k)), handle(convert, in_layout(p, p.v)), handle(convert, p.mask),
     handle(convert, p.bias), handle(convert, p.q_offsets), separate_keys ? handle(convert, p.k_offsets) : nullptr,
     handle(convert, p.num_context), handle(convert, p.num_target), static_cast<int64_t>(p.mask_type), p.max_k, p.scale,
     p.q_offsets.defined() ? kJagged : kNormal, p.group, p.alpha, p.max_attn_len, p.min_full_attn_len, p.window_size,
     handle(convert, q_grad), handle(convert, k_grad), handle(convert, v_grad),
     p.needs_bias_grad ? handle(convert, bias_grad) : nullptr);
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, PrivateUse1, m) { Entries<&forward, &backward>::register_in(m); }

}  // namespace gr_ops::hstu
