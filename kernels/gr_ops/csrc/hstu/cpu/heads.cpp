#include "hstu/cpu/heads.h"

#include "hstu/cpu/sight.h"

namespace gr_ops::hstu {
namespace {

Element element_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return Element::Double;
    case at::kHalf:
      return Element::Half;
    case at::kBFloat16:
      return Element::BFloat16;
    case at::kFloat:
      return Element::Float;
    default:
      return Element::Byte;  // bool, uint8
  }
}

const void* element(const at::Tensor& tensor, int64_t index) {
  return static_cast<const char*>(tensor.const_data_ptr()) + index * static_cast<int64_t>(tensor.element_size());
}

// The first token of a head in a contiguous [tokens, N, D].
const void* first_token(const at::Tensor& tensor, int64_t token, int64_t head) {
  return element(tensor, token * tensor.stride(0) + head * tensor.stride(1));
}

void* mutable_token(const at::Tensor& tensor, int64_t heads, int64_t dim, int64_t token, int64_t head) {
  return static_cast<char*>(tensor.mutable_data_ptr()) +
         (token * heads + head) * dim * static_cast<int64_t>(tensor.element_size());
}

MaskRule rule_of(const Problem& p, const Row& row) {
  MaskRule rule;
  rule.kind = p.mask_type == Mask::Lower   ? MaskRule::Lower
              : p.mask_type == Mask::Upper ? MaskRule::Upper
                                           : MaskRule::All;
  rule.context = static_cast<int>(row.context);
  rule.targets_from = static_cast<int>(row.keys() - row.target);
  rule.group = static_cast<int>(std::min<int64_t>(p.group, std::numeric_limits<int>::max()));
  rule.window = static_cast<int>(std::min<int64_t>(p.max_attn_len, std::numeric_limits<int>::max()));
  rule.min_full = static_cast<int>(std::min<int64_t>(p.min_full_attn_len, std::numeric_limits<int>::max()));
  return rule;
}

Tokens paged_tokens(const Problem& p, const at::Tensor& fresh, const at::Tensor& page_ids, const Row& row, int64_t head,
                    int64_t part) {
  Tokens tokens;
  tokens.data = first_token(fresh, row.k_begin, head);
  tokens.stride = fresh.stride(0);
  if (row.cached == 0) return tokens;
  tokens.cache = element(p.kv_cache, part * p.kv_cache.stride(1) + head * p.kv_cache.stride(3));
  tokens.page_ids = page_ids.const_data_ptr<int64_t>() + row.page_begin;
  tokens.page_stride = p.kv_cache.stride(0);
  tokens.slot_stride = p.kv_cache.stride(2);
  tokens.page_size = static_cast<int>(p.kv_cache.size(2));
  tokens.cached = static_cast<int>(row.cached);
  return tokens;
}

}  // namespace

double block_cost(const Head& head, int block) {
  const int first = block * kQueryBlock + head.shift;
  const int last = std::min((block + 1) * kQueryBlock, head.queries) - 1 + head.shift;
  const Sight a = sight(head.rule, head.keys, first);
  const Sight b = sight(head.rule, head.keys, last);
  const int keys = std::max(a.high[0], b.high[0]) - std::min(a.low[0], b.low[0]) + (b.high[1] - b.low[1]);
  return std::max(keys, 1) + 16;  // packing the queries and writing their results cost about as much as 16 keys
}

Heads::Heads(const Problem& problem, const std::vector<Row>& rows) : problem_(problem), rows_(rows) {
  if (problem.kv_cache.defined()) page_ids_ = problem.page_ids.to(at::kLong).contiguous();
  costs_.reserve(rows.size());
  for (size_t b = 0; b < rows.size(); ++b) {
    double cost = 0;
    if (problem.heads > 0) {
      const Head head = at(static_cast<int64_t>(b) * problem.heads);
      for (int block = 0; block < query_blocks(head.queries); ++block) cost += block_cost(head, block);
    }
    costs_.push_back(cost);
  }
}

const void* Heads::square(const at::Tensor& tensor, int64_t task) const {
  const int64_t b = tensor.size(0) == 1 ? 0 : task / problem_.heads;
  const int64_t h = tensor.size(1) == 1 ? 0 : task % problem_.heads;
  return element(tensor, (b * tensor.size(1) + h) * tensor.size(2) * tensor.size(3));
}

Head Heads::at(int64_t task) const {
  const Problem& p = problem_;
  const Row& row = rows_[task / p.heads];
  const int64_t h = task % p.heads;
  Head head;
  head.q.data = first_token(p.q, row.q_begin, h);
  head.q.stride = p.heads * p.dim;
  head.k = paged_tokens(p, p.k, page_ids_, row, h, 0);
  head.v = paged_tokens(p, p.v, page_ids_, row, h, 1);
  head.queries = static_cast<int>(row.q_len);
  head.keys = static_cast<int>(row.keys());
  head.shift = static_cast<int>(row.shift());
  head.dim = static_cast<int>(p.dim);
  head.value_dim = static_cast<int>(p.value_dim);
  head.rule = rule_of(p, row);
  head.scale = p.scale;
  head.alpha = p.alpha;
  if (p.bias.defined()) {
    head.bias = square(p.bias, task);
    head.bias_side = p.bias.size(3);
  }
  if (p.mask.defined()) {
    head.weight = square(p.mask, task);
    head.weight_side = p.mask.size(3);
    head.weight_element = element_of(p.mask.scalar_type());
  }
  if (output_.defined()) {
    head.out = mutable_token(output_, p.heads, p.value_dim, row.q_begin, h);
    head.out_stride = p.heads * p.value_dim;
  }
  const auto& [dq, dk, dv, dbias] = gradients_;
  if (dq.defined()) {
    head.grad.data = first_token(p.grad, row.q_begin, h);
    head.grad.stride = p.heads * p.value_dim;
    head.dq = mutable_token(dq, p.heads, p.dim, row.q_begin, h);
    head.dk = mutable_token(dk, p.heads, p.dim, row.k_begin, h);
    head.dv = mutable_token(dv, p.heads, p.value_dim, row.k_begin, h);
    if (p.needs_bias_grad && !bias_is_shared()) head.dbias = const_cast<void*>(square(dbias, task));
  }
  return head;
}

const Kernels& Heads::kernels() const {
  return instruction_set().of[static_cast<int>(element_of(problem_.q.scalar_type()))];
}

bool Heads::bias_is_shared() const {
  const Problem& p = problem_;
  return p.bias.defined() && ((p.bias.size(0) == 1 && p.batch > 1) || (p.bias.size(1) == 1 && p.heads > 1));
}

std::vector<Head> Heads::sharing_bias(int64_t slice) const {
  const at::Tensor& dbias = std::get<3>(gradients_);
  const void* wanted = element(dbias, slice * dbias.size(2) * dbias.size(3));
  std::vector<Head> heads;
  for (int64_t task = 0; task < count(); ++task) {
    if (square(dbias, task) != wanted) continue;
    heads.push_back(at(task));
    heads.back().dbias = const_cast<void*>(wanted);
  }
  return heads;
}

}  // namespace gr_ops::hstu
