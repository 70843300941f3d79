#include "hstu/npu_problem.h"

#include <ATen/ops/sub.h>

#include <algorithm>
#include <array>

#include "common/settings.h"
#include "hstu/rows.h"

namespace gr_ops::hstu {
namespace {

constexpr int64_t kMaxDim = 512;  // of a head, in the operators

// The operators take offsets, counts and page tables of one type.
void unify_indices(Problem& p) {
  const std::array<at::Tensor*, 7> indices{&p.q_offsets,    &p.k_offsets, &p.num_context,  &p.num_target,
                                           &p.page_offsets, &p.page_ids,  &p.last_page_len};
  const auto wide = [](const at::Tensor* tensor) { return tensor->defined() && tensor->scalar_type() == at::kLong; };
  if (std::none_of(indices.begin(), indices.end(), wide)) return;
  for (at::Tensor* tensor : indices) {
    if (tensor->defined()) *tensor = tensor->to(at::kLong);
  }
}

// The mask as the operators take it: of q's type, or one byte for each cell.
at::Tensor operator_mask(const Problem& p) {
  if (!p.mask.defined() || p.mask.scalar_type() == at::kByte) return p.mask;
  return p.mask.scalar_type() == at::kBool ? p.mask.view(at::kByte) : p.mask.to(p.q.scalar_type());
}

void check_limits(const Problem& p) {
  for (const auto& [name, dim] : {std::pair{"q", p.dim}, std::pair{"v", p.value_dim}}) {
    TORCH_CHECK(dim <= kMaxDim, p.op, ": ", name, " has head dimension ", dim, " on the NPU; expected at most ",
                kMaxDim, ", got ", dim);
  }
}

}  // namespace

Problem make_npu_problem(const Arguments& a) {
  Problem p = make_problem(a);
  check_limits(p);
  if (value_checks_enabled()) read_rows(p, a);
  if (a.target_offsets.defined() && !p.num_target.defined()) {
    p.num_target = at::sub(a.target_offsets.slice(0, 1), a.target_offsets.slice(0, 0, p.batch));
  }
  unify_indices(p);
  p.mask = operator_mask(p);
  return p;
}

bool is_empty(const Problem& p) { return p.heads == 0 || p.dim == 0 || p.value_dim == 0 || p.batch == 0; }

}  // namespace gr_ops::hstu
