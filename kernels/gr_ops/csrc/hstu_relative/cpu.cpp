#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/result.h"
#include "hstu/cpu/attention.h"
#include "hstu_relative/entries.h"
#include "hstu_relative/line.h"

// On the CPU the attention's own kernels, which make the bias where they use it (hstu/cpu/relative.h). What is here are
// the tables as they take them, and the sums of the tables' gradients.
namespace gr_ops::hstu_relative {
namespace {

constexpr int64_t kFirstCell = 1016;    // the upper 12 bits of 1.0f
constexpr int64_t kNever = 0x7F800000;  // bits of an edge that no number of seconds reaches: infinity
constexpr int64_t kSmall = 1 << 16;     // sums that are not worth waking a thread for

// No cell leads to a bucket that the table does not have: the last one stands for those.
at::Tensor cells_within(const at::Tensor& cells, int64_t buckets) {
  at::Tensor result = cells.clone(at::MemoryFormat::Contiguous);
  auto* entry = result.mutable_data_ptr<int64_t>();
  const int64_t last = std::min<int64_t>(buckets - 1, 0xFFFF);
  for (int64_t cell = 0; cell < kCells; ++cell) {
    if ((entry[cell] & 0xFFFF) >= last) entry[cell] = kNever << 32 | last;
  }
  return result;
}

float float_of(int64_t bits) {
  const auto narrow = static_cast<int32_t>(bits);
  float value;
  static_assert(sizeof(value) == sizeof(narrow));
  std::memcpy(&value, &narrow, sizeof(value));
  return value;
}

std::vector<float> edges_of(const at::Tensor& cells, int64_t buckets) {
  const auto* entry = cells.const_data_ptr<int64_t>();
  std::vector<float> edges{1.0f};
  for (int64_t cell = 0; cell < kCells; ++cell) {
    const int64_t bucket = entry[cell] & 0xFFFF;
    while (static_cast<int64_t>(edges.size()) <= bucket) edges.push_back(float_of((cell + kFirstCell) << 20));
    if (entry[cell] >> 32 < kNever && static_cast<int64_t>(edges.size()) == bucket + 1) {
      edges.push_back(float_of(entry[cell] >> 32));
    }
  }
  edges.resize(std::max<int64_t>(buckets, hstu::kNearBuckets), float_of(kNever));
  return edges;
}

// To entries for kNearBuckets: what is beyond the table is never read.
at::Tensor lengthened(const at::Tensor& table) {
  if (table.numel() >= hstu::kNearBuckets) return table.contiguous();
  return at::cat({table, at::zeros({hstu::kNearBuckets - table.numel()}, table.options())});
}

class Call {
 public:
  Call(const hstu::Arguments& a, const Tables& tables)
      : problem_(hstu::make_problem(a)), rows_(hstu::read_rows(problem_, a)), heads_(problem_, rows_) {
    TORCH_CHECK(problem_.max_q <= tables.position.size(0), a.op, ": position has ", tables.position.size(0),
                " distances; expected one for each token of the longest row, ", problem_.max_q);
    const at::ScalarType sum = a.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    int64_t longest = 0;
    for (const hstu::Row& row : rows_) longest = std::max(longest, row.q_len);
    const at::Tensor known = tables.position.narrow(0, 0, longest), nearest = tables.position.narrow(0, 0, 1);
    position_ = at::cat({nearest.expand(longest), known, at::zeros({hstu::kQueryBlock}, known.options())}).to(sum);
    const int64_t buckets = tables.time.numel();
    time_ = lengthened(tables.time.to(sum));
    times_ = tables.times.contiguous();
    cells_ = cells_within(tables.cells, buckets);
    edges_ = edges_of(cells_, buckets);
    hstu::RelativeBias bias;
    bias.position = static_cast<const char*>(position_.const_data_ptr()) + longest * position_.itemsize();
    bias.time = time_.const_data_ptr();
    bias.times = times_.const_data_ptr<int64_t>();
    bias.cells = cells_.const_data_ptr<int64_t>();
    bias.edges = edges_.data();
    bias.buckets = static_cast<int>(buckets);
    draw_line(edges_, buckets, bias);
    heads_.set_relative(bias);
  }

  void forward(const at::Tensor& output) {
    heads_.set_output(output);
    hstu::forward_heads(heads_);
  }

  void backward(const Gradients& gradients) {
    const auto& [q, k, v, position, time] = gradients;
    heads_.set_gradients({q, k, v, at::Tensor()});
    const at::Tensor sums = at::empty({heads_.relative_sums_size()}, position_.options());
    heads_.set_relative_sums(sums);
    hstu::backward_heads(heads_);
    if (sums.scalar_type() == at::kDouble) {
      add_up<double>(sums, position, time);
    } else {
      add_up<float>(sums, position, time);
    }
  }

 private:
  // Over all blocks of queries in their order: the same bits on any number of threads.
  template <typename Sum>
  void add_up(const at::Tensor& sums, const at::Tensor& position, const at::Tensor& time) const {
    const int64_t buckets = time.numel(), count = buckets + position.numel();
    auto *of_time = time.mutable_data_ptr<float>(), *of_position = position.mutable_data_ptr<float>();
    at::parallel_for(0, count, sums.numel() < kSmall ? count : 256, [&](int64_t begin, int64_t end) {
      std::vector<double> totals(end - begin);
      const Sum* part = sums.const_data_ptr<Sum>();
      for (int64_t task = 0; task < heads_.count(); ++task) {
        const int blocks = hstu::query_blocks(static_cast<int>(heads_.row(task).q_len));
        for (int block = 0; block < blocks; ++block) {
          const int64_t size = hstu::relative_sums(block + 1, static_cast<int>(buckets)) -
                               hstu::relative_sums(block, static_cast<int>(buckets));
          const int64_t last = std::min(end, size);
          for (int64_t i = begin; i < last; ++i) totals[i - begin] += part[i];
          part += size;
        }
      }
      for (int64_t i = begin; i < end; ++i) {
        (i < buckets ? of_time[i] : of_position[i - buckets]) = static_cast<float>(totals[i - begin]);
      }
    });
  }

  hstu::Problem problem_;
  std::vector<hstu::Row> rows_;
  hstu::Heads heads_;
  at::Tensor position_, time_, times_, cells_;
  std::vector<float> edges_;
};

at::Tensor forward(const hstu::Arguments& a, const Tables& tables) {
  const at::Tensor output = hstu::new_cpu_output(a);
  Call call(a, tables);
  if (output.numel() > 0) call.forward(output);
  return output;
}

Gradients backward(const hstu::Arguments& a, const Tables& tables) {
  const Gradients gradients{new_result_like(a.q), new_result_like(a.k), new_result_like(a.v),
                            new_result_like(tables.position), new_result_like(tables.time)};
  Call(a, tables).backward(gradients);
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { Entries<&forward, &backward>::register_in(m); }

}  // namespace gr_ops::hstu_relative
