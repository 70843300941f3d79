#include "hstu/calls.h"

#include <cstring>

#include "common/operators.h"
#include "hstu/entries.h"

namespace gr_ops::hstu {
namespace {

using Calls = Entries<&call_forward, &call_backward>;  // for the signatures of its members

bool is(const Arguments& a, const char* op) { return std::strcmp(a.op, op) == 0; }

OptionalTensor optional(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
}

at::OptionalIntArrayRef offset_list(const Arguments& a) {
  return a.offset_list.has_value() ? at::OptionalIntArrayRef(*a.offset_list) : at::OptionalIntArrayRef();
}

}  // namespace

at::Tensor call_forward(const Arguments& a) {
  const OptionalTensor mask = optional(a.mask);
  const OptionalTensor bias = optional(a.bias);
  if (is(a, "hstu_jagged")) {
    static const auto op = find_operator<decltype(Calls::jagged)>("mxrec::hstu_jagged", "equal");
    return op.call(a.q, a.k, a.v, mask, bias, a.mask_type, a.max_len, a.scale, optional(a.offsets),
                   optional(a.num_context), optional(a.num_target), a.group, a.alpha, a.max_attn_len,
                   a.min_full_attn_len, a.deterministic, a.window_size);
  }
  if (is(a, "hstu_varlen")) {
    static const auto op = find_operator<decltype(Calls::varlen)>("mxrec::hstu_varlen");
    return op.call(a.q, a.k, a.v, mask, bias, a.mask_type, a.max_len, a.max_len_k, a.scale, optional(a.offsets),
                   optional(a.offsets_k));
  }
  if (is(a, "hstu_paged")) {
    static const auto op = find_operator<decltype(Calls::paged)>("mxrec::hstu_paged");
    return op.call(a.q, a.k, a.v, optional(a.kv_cache), mask, bias, a.mask_type, a.max_len, a.max_len_k, a.scale,
                   optional(a.offsets), optional(a.offsets_k), optional(a.target_offsets), optional(a.page_offsets),
                   optional(a.page_ids), optional(a.last_page_len), optional(a.num_target), a.group, a.alpha);
  }
  TORCH_INTERNAL_ASSERT(is(a, "hstu_dense"), a.op);
  if (a.offsets.defined()) {
    static const auto op = find_operator<decltype(Calls::dense<const OptionalTensor&>)>("mxrec::hstu_dense", "tensor");
    return op.call(a.q, a.k, a.v, mask, bias, a.mask_type, a.max_len, a.scale, a.layout, a.offsets);
  }
  static const auto op = find_operator<decltype(Calls::dense<at::OptionalIntArrayRef>)>("mxrec::hstu_dense");
  return op.call(a.q, a.k, a.v, mask, bias, a.mask_type, a.max_len, a.scale, a.layout, offset_list(a));
}

Gradients call_backward(const Arguments& a) {
  const OptionalTensor mask = optional(a.mask);
  const OptionalTensor bias = optional(a.bias);
  if (is(a, "hstu_gradients")) {
    static const auto op = find_operator<decltype(Calls::gradients)>("mxrec::hstu_gradients");
    return op.call(a.grad, a.q, a.k, a.v, mask, bias, a.layout, a.mask_type, a.max_len, a.max_len_k, a.scale, a.alpha,
                   offset_list(a), optional(a.offsets), optional(a.offsets_k), optional(a.num_context),
                   optional(a.num_target), a.group, a.max_attn_len, a.min_full_attn_len, a.deterministic, a.window_size,
                   a.needs_bias_grad);
  }
  if (is(a, "hstu_jagged_backward")) {
    static const auto op = find_operator<decltype(Calls::jagged_backward)>("mxrec::hstu_jagged_backward", "equal");
    return op.call(a.grad, a.q, a.k, a.v, mask, bias, a.mask_type, a.max_len, a.scale, optional(a.offsets),
                   optional(a.num_context), optional(a.num_target), a.group, a.alpha, a.max_attn_len,
                   a.min_full_attn_len, a.deterministic, a.window_size);
  }
  TORCH_INTERNAL_ASSERT(is(a, "hstu_dense_backward"), a.op);
  if (a.offsets.defined()) {
    static const auto op =
        find_operator<decltype(Calls::dense_backward<const OptionalTensor&>)>("mxrec::hstu_dense_backward", "tensor");
    return op.call(a.grad, a.q, a.k, a.v, mask, bias, a.layout, a.mask_type, a.max_len, a.scale, a.offsets);
  }
  static const auto op =
      find_operator<decltype(Calls::dense_backward<at::OptionalIntArrayRef>)>("mxrec::hstu_dense_backward");
  return op.call(a.grad, a.q, a.k, a.v, mask, bias, a.layout, a.mask_type, a.max_len, a.scale, offset_list(a));
}

}  // namespace gr_ops::hstu
