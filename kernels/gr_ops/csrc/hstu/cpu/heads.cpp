#include "hstu/cpu/heads.h"

#include <algorithm>

#include "hstu/cpu/visible_keys.h"

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

// Tokens of a contiguous [tokens, N, D].
HeadPointers tokens_of(const at::Tensor& tensor) {
  return tensor.defined() ? HeadPointers(tensor, tensor.stride(0), tensor.stride(1)) : HeadPointers();
}

// Squares of a contiguous [B or 1, N or 1, M, M].
HeadPointers squares_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor, tensor.size(0) == 1 ? 0 : tensor.stride(0), tensor.size(1) == 1 ? 0 : tensor.stride(1)};
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
  if (p.window_size >= 0) rule.reach = static_cast<int>(std::min<int64_t>(p.window_size, kUnlimited));
  return rule;
}

}  // namespace

double block_cost(const Head& head, int block) {
  const int first = block * kQueryBlock + head.shift;
  const int last = std::min((block + 1) * kQueryBlock, head.queries) - 1 + head.shift;
  const KeyRanges a = visible_keys(head.rule, head.keys, first);
  const KeyRanges b = visible_keys(head.rule, head.keys, last);
  const int keys = std::max(a.high[0], b.high[0]) - std::min(a.low[0], b.low[0]) + (b.high[1] - b.low[1]);
  return std::max(keys, 1) + 16;  // packing the queries and writing their results cost about as much as 16 keys
}

HeadPointers::HeadPointers(const at::Tensor& tensor, int64_t step, int64_t head_step)
    : data_(static_cast<char*>(const_cast<void*>(tensor.const_data_ptr()))),
      step_(step * static_cast<int64_t>(tensor.element_size())),
      head_step_(head_step * static_cast<int64_t>(tensor.element_size())) {}

Heads::Heads(const Problem& problem, const std::vector<Row>& rows)
    : problem_(problem),
      rows_(rows),
      q_(tokens_of(problem.q)),
      k_(tokens_of(problem.k)),
      v_(tokens_of(problem.v)),
      bias_(squares_of(problem.bias)),
      mask_(squares_of(problem.mask)) {
  const Problem& p = problem;
  if (p.kv_cache.defined()) {
    page_ids_ = p.page_ids.to(at::kLong).contiguous();
    cache_ = HeadPointers(p.kv_cache, p.kv_cache.stride(1), p.kv_cache.stride(3));
  }
  same_.q.stride = p.heads * p.dim;
  same_.dim = static_cast<int>(p.dim);
  same_.value_dim = static_cast<int>(p.value_dim);
  same_.scale = p.scale;
  same_.alpha = p.alpha;
  if (p.bias.defined()) same_.bias_side = p.bias.size(3);
  if (p.mask.defined()) {
    same_.weight_side = p.mask.size(3);
    same_.weight_element = element_of(p.mask.scalar_type());
  }
  same_.out_stride = p.heads * p.value_dim;
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

void Heads::set_output(const at::Tensor& output) {
  out_ = HeadPointers(output, problem_.heads * problem_.value_dim, problem_.value_dim);
}

void Heads::set_gradients(const Gradients& gradients) {
  const auto& [dq, dk, dv, dbias] = gradients;
  const int64_t heads = problem_.heads;
  grad_ = tokens_of(problem_.grad);
  same_.grad.stride = heads * problem_.value_dim;
  dq_ = HeadPointers(dq, heads * problem_.dim, problem_.dim);
  dk_ = HeadPointers(dk, heads * problem_.dim, problem_.dim);
  dv_ = HeadPointers(dv, heads * problem_.value_dim, problem_.value_dim);
  if (problem_.needs_bias_grad) dbias_ = squares_of(dbias);
}

void Heads::set_relative(const RelativeBias& bias) {
  same_.relative = bias;
  sums_begin_ = {0};
  for (int64_t task = 0; task < count(); ++task) {
    const int blocks = query_blocks(static_cast<int>(row(task).q_len));
    sums_begin_.push_back(sums_begin_.back() + relative_sums(blocks, bias.buckets));
  }
}

void Heads::set_relative_sums(const at::Tensor& sums) { sums_ = HeadPointers(sums, 1, 0); }

size_t Heads::relative_scratch() const {
  if (!sums_.defined()) return 0;
  int64_t longest = 0;
  for (const Row& row : rows_) longest = std::max(longest, row.keys());
  return kernels().relative_scratch(static_cast<int>(longest), same_.relative.buckets);
}

Tokens Heads::paged(const HeadPointers& fresh, int64_t stride, const Row& row, int64_t head, int64_t part) const {
  Tokens tokens;
  tokens.data = fresh.at(row.k_begin, head);
  tokens.stride = stride;
  if (row.cached == 0) return tokens;
  const at::Tensor& cache = problem_.kv_cache;
  tokens.cache = cache_.at(part, head);
  tokens.page_ids = page_ids_.const_data_ptr<int64_t>() + row.page_begin;
  tokens.page_stride = cache.stride(0);
  tokens.slot_stride = cache.stride(2);
  tokens.page_size = static_cast<int>(cache.size(2));
  tokens.cached = static_cast<int>(row.cached);
  return tokens;
}

Head Heads::at(int64_t task) const {
  const int64_t b = task / problem_.heads;
  const int64_t h = task % problem_.heads;
  const Row& row = rows_[b];
  Head head = same_;
  head.q.data = q_.at(row.q_begin, h);
  head.k = paged(k_, problem_.heads * problem_.dim, row, h, 0);
  head.v = paged(v_, problem_.heads * problem_.value_dim, row, h, 1);
  head.queries = static_cast<int>(row.q_len);
  head.keys = static_cast<int>(row.keys());
  head.shift = static_cast<int>(row.shift());
  head.rule = rule_of(problem_, row);
  head.bias = bias_.at(b, h);
  head.weight = mask_.at(b, h);
  head.out = out_.at(row.q_begin, h);
  head.grad.data = grad_.at(row.q_begin, h);
  head.dq = dq_.at(row.q_begin, h);
  head.dk = dk_.at(row.k_begin, h);
  head.dv = dv_.at(row.k_begin, h);
  if (dbias_.defined() && !bias_is_shared()) head.dbias = dbias(task);
  if (same_.relative.position != nullptr) head.relative.times += row.q_begin;
  if (sums_.defined()) head.relative.sums = sums_.at(sums_begin_[task], 0);
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
  const int64_t across = problem_.bias.size(1);
  void* wanted = dbias_.at(slice / across, slice % across);
  std::vector<Head> heads;
  for (int64_t task = 0; task < count(); ++task) {
    if (dbias(task) != wanted) continue;
    heads.push_back(at(task));
    heads.back().dbias = wanted;
  }
  return heads;
}

}  // namespace gr_ops::hstu
