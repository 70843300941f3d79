#include "hstu/arguments.h"

namespace gr_ops::hstu {
namespace {

Arguments attention(const char* op, const Names& names, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const OptionalTensor& mask, const OptionalTensor& bias, int64_t mask_type, int64_t max_len,
                    double scale) {
  Arguments a;
  a.op = op;
  a.names = names;
  a.q = q;
  a.k = k;
  a.v = v;
  a.mask = mask.value_or(at::Tensor());
  a.bias = bias.value_or(at::Tensor());
  a.mask_type = mask_type;
  a.max_len = max_len;
  a.scale = scale;
  return a;
}

}  // namespace

Arguments dense_arguments(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const OptionalTensor& mask, const OptionalTensor& bias, c10::string_view layout,
                          int64_t mask_type, int64_t max_len, double scale) {
  Arguments a = attention(op, kCamelNames, q, k, v, mask, bias, mask_type, max_len, scale);
  a.layout = std::string(layout.data(), layout.size());
  return a;
}

Arguments jagged_arguments(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const OptionalTensor& mask, const OptionalTensor& bias, int64_t mask_type, int64_t max_len,
                           double scale, const OptionalTensor& offsets, const OptionalTensor& num_context,
                           const OptionalTensor& num_target, std::optional<int64_t> group, std::optional<double> alpha,
                           int64_t max_attn_len, int64_t min_full_attn_len, bool deterministic, int64_t window_size) {
  Arguments a = attention(op, kSnakeNames, q, k, v, mask, bias, mask_type, max_len, scale);
  a.offsets = offsets.value_or(at::Tensor());
  a.num_context = num_context.value_or(at::Tensor());
  a.num_target = num_target.value_or(at::Tensor());
  a.group = group.value_or(0);
  a.alpha = alpha.value_or(1.0);
  a.max_attn_len = max_attn_len;
  a.min_full_attn_len = min_full_attn_len;
  a.deterministic = deterministic;
  a.window_size = window_size;
  return a;
}

Arguments varlen_arguments(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const OptionalTensor& mask, const OptionalTensor& bias, int64_t mask_type, int64_t max_len,
                           int64_t max_len_k, double scale, const OptionalTensor& offsets,
                           const OptionalTensor& offsets_k) {
  Arguments a = attention(op, kCamelNames, q, k, v, mask, bias, mask_type, max_len, scale);
  a.max_len_k = max_len_k;
  a.offsets = offsets.value_or(at::Tensor());
  a.offsets_k = offsets_k.value_or(a.offsets);
  a.varlen = true;
  return a;
}

}  // namespace gr_ops::hstu
