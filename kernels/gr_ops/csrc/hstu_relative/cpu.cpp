#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "common/operators.h"
#include "hstu/calls.h"
#include "hstu/problem.h"
#include "hstu/rows.h"
#include "hstu_relative/entries.h"
#include "relative_bias/calls.h"

// On the CPU the operators that calculate bias and attention apart, one sequence after the other: memory holds the
// squares of one sequence, in float32 also for 16-bit tokens, as the other devices do.
namespace gr_ops::hstu_relative {
namespace {

constexpr int64_t kFirstCell = 1016;  // the upper 12 bits of 1.0f

float float_of(int64_t bits) {
  const auto narrow = static_cast<int32_t>(bits);
  float value;
  static_assert(sizeof(value) == sizeof(narrow));
  std::memcpy(&value, &narrow, sizeof(value));
  return value;
}

// The least number of seconds whose nearest float32 is `edge` or more.
int64_t least_seconds(float edge) {
  int64_t low = 0, high = std::numeric_limits<int64_t>::max();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (static_cast<float>(middle) >= edge) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// [buckets]: from how many seconds on each bucket of the cells holds.
at::Tensor thresholds_of(const at::Tensor& cells, int64_t buckets) {
  const at::Tensor entries = cells.contiguous();
  const auto* entry = entries.const_data_ptr<int64_t>();
  std::vector<int64_t> least{std::numeric_limits<int64_t>::min()};
  const auto count = [&] { return static_cast<int64_t>(least.size()); };
  for (int64_t cell = 0; cell < kCells; ++cell) {
    const int64_t bucket = entry[cell] & 0xFFFF;
    const int64_t start = cell == 0 ? least[0] : least_seconds(float_of((cell + kFirstCell) << 20));
    while (count() <= bucket && count() < buckets) least.push_back(start);
    const float edge = float_of(entry[cell] >> 32);
    if (edge > 0 && edge < std::numeric_limits<float>::infinity() && count() == bucket + 1 && count() < buckets) {
      least.push_back(least_seconds(edge));
    }
  }
  return at::tensor(least, at::kLong);
}

// What one sequence's operators take.
class Sequence {
 public:
  Sequence(const hstu::Arguments& a, const Tables& tables, const at::Tensor& thresholds, const hstu::Problem& p,
           const hstu::Row& row)
      : row_(row), offsets_(at::tensor({int64_t{0}, row.q_len}, at::kLong)) {
    wide_ = a.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    position_ = tables.position.to(wide_);
    time_ = tables.time.to(wide_);
    if (p.num_target.defined()) history_ = at::tensor({row.q_len - row.target}, at::kLong);
    static const auto find =
        find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::SymInt, int64_t)>(
            "mxrec::hstu_time_buckets");
    buckets_ = find.call(part(tables.times), offsets_, thresholds, row.q_len, row.context);
    part_ = a;
    part_.op = "hstu_jagged";
    for (at::Tensor* tensor : {&part_.q, &part_.k, &part_.v}) *tensor = part(*tensor).to(wide_);
    part_.bias = relative_bias::call_bias(position_, time_, buckets_, offsets_, history_, row.context);
    part_.offsets = offsets_;
    if (p.num_context.defined()) part_.num_context = at::tensor({row.context}, at::kLong);
    if (p.num_target.defined()) part_.num_target = at::tensor({row.target}, at::kLong);
    part_.max_len = row.q_len;
    part_.scale = p.scale;
  }

  at::Tensor part(const at::Tensor& rows) const { return rows.slice(0, row_.q_begin, row_.q_begin + row_.q_len); }

  void forward(const at::Tensor& output) const { part(output).copy_(hstu::call_forward(part_)); }

  void backward(const at::Tensor& grad, const Gradients& gradients) {
    const auto& [q, k, v, position, time] = gradients;
    part_.op = "hstu_gradients";
    part_.grad = part(grad).to(wide_);
    part_.needs_bias_grad = true;
    const auto [dq, dk, dv, dbias] = hstu::call_backward(part_);
    part(q).copy_(dq);
    part(k).copy_(dk);
    part(v).copy_(dv);
    const auto [dposition, dtime] =
        relative_bias::call_bias_backward(dbias, position_, time_, buckets_, offsets_, history_, row_.context);
    position.add_(dposition);
    time.add_(dtime);
  }

 private:
  const hstu::Row& row_;
  at::ScalarType wide_;
  at::Tensor offsets_, position_, time_, buckets_;
  OptionalTensor history_;
  hstu::Arguments part_;
};

std::vector<hstu::Row> rows_of(hstu::Problem& p, const hstu::Arguments& a, const Tables& tables) {
  std::vector<hstu::Row> rows = hstu::read_rows(p, a);
  TORCH_CHECK(p.max_q <= tables.position.size(0), a.op, ": position has ", tables.position.size(0),
              " distances; expected one for each token of the longest row, ", p.max_q);
  rows.erase(std::remove_if(rows.begin(), rows.end(), [](const hstu::Row& row) { return row.q_len == 0; }), rows.end());
  return rows;
}

at::Tensor forward(const hstu::Arguments& a, const Tables& tables) {
  hstu::Problem p = hstu::make_problem(a);
  const std::vector<hstu::Row> rows = rows_of(p, a, tables);
  const at::Tensor output = hstu::new_output(a);
  if (output.numel() == 0) return output;
  const at::Tensor thresholds = thresholds_of(tables.cells, tables.time.size(0));
  for (const hstu::Row& row : rows) Sequence(a, tables, thresholds, p, row).forward(output);
  return output;
}

Gradients backward(const hstu::Arguments& a, const Tables& tables) {
  hstu::Problem p = hstu::make_problem(a);
  const std::vector<hstu::Row> rows = rows_of(p, a, tables);
  const Gradients gradients = new_gradients(a, tables);
  std::get<3>(gradients).zero_();
  std::get<4>(gradients).zero_();
  if (a.q.numel() == 0) return gradients;
  const at::Tensor thresholds = thresholds_of(tables.cells, tables.time.size(0));
  for (const hstu::Row& row : rows) Sequence(a, tables, thresholds, p, row).backward(a.grad, gradients);
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { Entries<&forward, &backward>::register_in(m); }

}  // namespace gr_ops::hstu_relative
