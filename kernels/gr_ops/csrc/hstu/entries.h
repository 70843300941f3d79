#pragma once

#include <torch/library.h>

#include "hstu/arguments.h"

// A back end is two functions. Entries registers them behind every HSTU operator:
//   TORCH_LIBRARY_IMPL(mxrec, CPU, m) { Entries<&forward, &backward>::register_in(m); }
namespace gr_ops::hstu {

inline void take_offsets(Arguments& a, at::OptionalIntArrayRef list) {
  if (list.has_value()) a.offset_list = list->vec();
}

inline void take_offsets(Arguments& a, const OptionalTensor& tensor) { a.offsets = tensor.value_or(at::Tensor()); }

template <at::Tensor (*Forward)(const Arguments&), Gradients (*Backward)(const Arguments&)>
struct Entries {
  // Offsets: at::OptionalIntArrayRef (default overload) or const OptionalTensor& (overload tensor).
  template <typename Offsets>
  static at::Tensor dense(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                          const OptionalTensor& bias, int64_t mask_type, int64_t max_len, double scale,
                          c10::string_view layout, Offsets offsets) {
    Arguments a = dense_arguments("hstu_dense", q, k, v, mask, bias, layout, mask_type, max_len, scale);
    take_offsets(a, offsets);
    return Forward(a);
  }

  template <typename Offsets>
  static Gradients dense_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const OptionalTensor& mask, const OptionalTensor& bias, c10::string_view layout,
                                  int64_t mask_type, int64_t max_len, double scale, Offsets offsets) {
    Arguments a = dense_arguments("hstu_dense_backward", q, k, v, mask, bias, layout, mask_type, max_len, scale);
    take_offsets(a, offsets);
    a.grad = grad;
    return Backward(a);
  }

  static at::Tensor jagged(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                           const OptionalTensor& bias, int64_t mask_type, int64_t max_len, double scale,
                           const OptionalTensor& offsets, const OptionalTensor& num_context,
                           const OptionalTensor& num_target, std::optional<int64_t> group, std::optional<double> alpha,
                           int64_t max_attn_len, int64_t min_full_attn_len, bool deterministic, int64_t window_size) {
    return Forward(jagged_arguments("hstu_jagged", q, k, v, mask, bias, mask_type, max_len, scale, offsets, num_context,
                                    num_target, group, alpha, max_attn_len, min_full_attn_len, deterministic,
                                    window_size));
  }

  static Gradients jagged_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const OptionalTensor& mask, const OptionalTensor& bias,
                                   int64_t mask_type, int64_t max_len, double scale, const OptionalTensor& offsets,
                                   const OptionalTensor& num_context, const OptionalTensor& num_target,
                                   std::optional<int64_t> group, std::optional<double> alpha, int64_t max_attn_len,
                                   int64_t min_full_attn_len, bool deterministic, int64_t window_size) {
    Arguments a =
        jagged_arguments("hstu_jagged_backward", q, k, v, mask, bias, mask_type, max_len, scale, offsets, num_context,
                         num_target, group, alpha, max_attn_len, min_full_attn_len, deterministic, window_size);
    a.grad = grad;
    return Backward(a);
  }

  static at::Tensor varlen(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& mask,
                           const OptionalTensor& bias, int64_t mask_type, int64_t max_len, int64_t max_len_k,
                           double scale, const OptionalTensor& offsets, const OptionalTensor& offsets_k) {
    return Forward(
        varlen_arguments("hstu_varlen", q, k, v, mask, bias, mask_type, max_len, max_len_k, scale, offsets, offsets_k));
  }

  static at::Tensor paged(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptionalTensor& kv_cache,
                          const OptionalTensor& mask, const OptionalTensor& bias, int64_t mask_type, int64_t max_len,
                          int64_t max_len_k, double scale, const OptionalTensor& offsets,
                          const OptionalTensor& offsets_k, const OptionalTensor& target_offsets,
                          const OptionalTensor& page_offsets, const OptionalTensor& page_ids,
                          const OptionalTensor& last_page_len, const OptionalTensor& num_target, int64_t group,
                          std::optional<double> alpha) {
    Arguments a =
        varlen_arguments("hstu_paged", q, k, v, mask, bias, mask_type, max_len, max_len_k, scale, offsets, offsets_k);
    a.names = kSnakeNames;
    a.paged = true;
    a.kv_cache = kv_cache.value_or(at::Tensor());
    a.target_offsets = target_offsets.value_or(at::Tensor());
    a.page_offsets = page_offsets.value_or(at::Tensor());
    a.page_ids = page_ids.value_or(at::Tensor());
    a.last_page_len = last_page_len.value_or(at::Tensor());
    a.num_target = num_target.value_or(at::Tensor());
    a.group = group;
    a.alpha = alpha.value_or(1.0);
    return Forward(a);
  }

  static Gradients gradients(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const OptionalTensor& mask, const OptionalTensor& bias, c10::string_view layout,
                             int64_t mask_type, int64_t max_len, int64_t max_len_k, double scale, double alpha,
                             at::OptionalIntArrayRef offset_list, const OptionalTensor& offsets,
                             const OptionalTensor& offsets_k, const OptionalTensor& num_context,
                             const OptionalTensor& num_target, int64_t group, int64_t max_attn_len,
                             int64_t min_full_attn_len, bool deterministic, int64_t window_size, bool bias_grad) {
    Arguments a =
        jagged_arguments("hstu_gradients", q, k, v, mask, bias, mask_type, max_len, scale, offsets, num_context,
                         num_target, group, alpha, max_attn_len, min_full_attn_len, deterministic, window_size);
    take_offsets(a, offset_list);
    a.layout = std::string(layout.data(), layout.size());
    a.offsets_k = offsets_k.value_or(at::Tensor());
    a.max_len_k = max_len_k;
    a.varlen = a.offsets_k.defined();
    a.grad = grad;
    a.needs_bias_grad = bias_grad;
    return Backward(a);
  }

  static void register_in(torch::Library& m) {
    m.impl("hstu_dense", &dense<at::OptionalIntArrayRef>);
    m.impl("hstu_dense.tensor", &dense<const OptionalTensor&>);
    m.impl("hstu_dense_backward", &dense_backward<at::OptionalIntArrayRef>);
    m.impl("hstu_dense_backward.tensor", &dense_backward<const OptionalTensor&>);
    m.impl("hstu_jagged.equal", &jagged);
    m.impl("hstu_jagged_backward.equal", &jagged_backward);
    m.impl("hstu_varlen", &varlen);
    m.impl("hstu_paged", &paged);
    m.impl("hstu_gradients", &gradients);
  }
};

}  // namespace gr_ops::hstu
