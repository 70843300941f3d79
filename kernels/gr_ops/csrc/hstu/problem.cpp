#include "hstu/problem.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include "hstu/checks.h"
#include "hstu/rows.h"

namespace gr_ops::hstu {
namespace {

// [B, S, N, D] and [L, N, D] alike as contiguous [tokens, N, D].
at::Tensor tokens(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const at::Tensor plain = tensor.contiguous();
  return plain.dim() == 4 ? plain.view({plain.size(0) * plain.size(1), plain.size(2), plain.size(3)}) : plain;
}

at::Tensor contiguous(const at::Tensor& tensor) { return tensor.defined() ? tensor.contiguous() : tensor; }

}  // namespace

Problem make_problem(const Arguments& a) {
  check(a);
  Problem p{};
  p.op = a.op;
  p.q = tokens(a.q);
  p.k = tokens(a.k);
  p.v = tokens(a.v);
  p.grad = tokens(a.grad);
  p.heads = p.q.size(1);
  p.dim = p.q.size(2);
  p.value_dim = p.v.size(2);
  p.mask_type = static_cast<Mask>(a.mask_type);
  if (p.mask_type == Mask::User) p.mask = a.mask.contiguous();
  p.bias = contiguous(a.bias);
  p.num_context = contiguous(a.num_context);
  p.num_target = contiguous(a.num_target);
  p.group = a.group == 0 ? 1 : a.group;
  p.max_attn_len = a.max_attn_len;
  p.min_full_attn_len = a.min_full_attn_len;
  p.window_size = a.window_size;
  p.scale = a.scale;
  p.alpha = a.alpha;
  p.deterministic = a.deterministic;
  p.needs_bias_grad = a.needs_bias_grad && a.bias.defined();
  p.kv_cache = contiguous(a.kv_cache);
  p.page_offsets = contiguous(a.page_offsets);
  p.page_ids = contiguous(a.page_ids);
  p.last_page_len = contiguous(a.last_page_len);
  if (a.layout == "normal") {
    p.batch = a.q.size(0);
    p.max_q = p.max_k = a.q.size(1);
  } else {
    p.q_offsets = a.offsets.defined() ? a.offsets.contiguous() : at::tensor(*a.offset_list, at::kLong).to(p.q.device());
    p.k_offsets = a.offsets_k.defined() ? a.offsets_k.contiguous() : p.q_offsets;
    p.batch = p.q_offsets.size(0) - 1;
    p.max_q = a.max_len;
    p.max_k = a.varlen ? a.max_len_k : a.max_len;
    if (!a.offsets.defined()) check_list(p, a);
  }
  if (p.scale == 0.0 && p.max_k > 0) p.scale = 1.0 / static_cast<double>(p.max_k);
  return p;
}

void resolve_lengths(Problem& p, int64_t longest_q, int64_t longest_k) {
  if (p.max_q == 0) p.max_q = longest_q;
  if (p.max_k == 0) p.max_k = longest_k;
  if (p.scale == 0.0 && p.max_k > 0) p.scale = 1.0 / static_cast<double>(p.max_k);
}

at::Tensor new_output(const Arguments& a) {
  std::vector<c10::SymInt> shape = a.q.sym_sizes().vec();
  shape.back() = a.v.sym_size(-1);
  return a.q.new_empty_symint(shape);
}

Gradients new_gradients(const Arguments& a) {
  const auto like = [](const at::Tensor& tensor) { return tensor.new_empty_symint(tensor.sym_sizes()); };
  const bool bias = a.bias.defined() && a.needs_bias_grad;
  return {like(a.q), like(a.k), like(a.v), bias ? like(a.bias) : a.q.new_empty({0})};
}

}  // namespace gr_ops::hstu
