#include "hstu/cpu/attention.h"

#include <algorithm>
#include <numeric>

#include "common/result.h"
#include "hstu/cpu/schedule.h"

namespace gr_ops::hstu {
namespace {

// A head as a whole takes five products per tile, its two parts seven. Heads are split only if the threads would
// otherwise wait for the largest of them; either way gives the same bits.
std::vector<bool> heads_to_split(const Heads& heads, const std::vector<int64_t>& by_cost, double total) {
  std::vector<bool> split(by_cost.size(), false);
  const int threads = schedule_threads();
  const double equal_load = total / threads;
  if (threads == 1 || by_cost.empty()) return split;
  std::vector<double> loads(threads, 0.0);
  for (int64_t task : by_cost) *std::min_element(loads.begin(), loads.end()) += heads.cost(task);
  if (*std::max_element(loads.begin(), loads.end()) <= 1.2 * equal_load) return split;
  for (int64_t task : by_cost) split[task] = heads.cost(task) > 0.25 * equal_load;
  return split;
}

void gradients_of_heads(const Heads& heads) {
  const Problem& p = heads.problem();
  const int64_t count = heads.count();
  std::vector<int64_t> by_cost(count);
  std::iota(by_cost.begin(), by_cost.end(), 0);
  std::stable_sort(by_cost.begin(), by_cost.end(), [&](int64_t a, int64_t b) { return heads.cost(a) > heads.cost(b); });
  double total = 0;
  for (int64_t task : by_cost) total += heads.cost(task);
  const std::vector<bool> split = heads_to_split(heads, by_cost, total);

  // Tasks of the schedule: [0, count) whole heads, [count, 2 count) keys, [2 count, 3 count) queries.
  Schedule schedule(total);
  int64_t longest_whole = 0;
  for (int64_t task : by_cost) {
    const Head head = heads.at(task);
    if (!split[task]) {
      if (head.keys > 0) schedule.add(task, 0, heads.cost(task));
      longest_whole = std::max<int64_t>(longest_whole, head.keys);
      continue;
    }
    const int tiles = key_tiles(head.keys);
    for (int tile = 0; tile < tiles; ++tile) schedule.add(count + task, tile, 0.8 * heads.cost(task) / tiles);
    const int blocks = query_blocks(head.queries);
    for (int block = 0; block < blocks; ++block) schedule.add(2 * count + task, block, 0.6 * block_cost(head, block));
  }
  const Kernels& kernels = heads.kernels();
  const size_t scratch_bytes =
      heads.relative_scratch() +
      kernels.backward_scratch(static_cast<int>(p.dim), static_cast<int>(p.value_dim), static_cast<int>(longest_whole));
  schedule.run(scratch_bytes, [&](const Span& span, const Span* next, void* scratch) {
    Head head = heads.at(span.task % count);
    const bool starts = next != nullptr && next->task < count;
    const Head next_head = starts ? heads.at(next->task) : Head();
    if (starts) head.next = &next_head;
    if (span.task < count) {
      kernels.backward(head, scratch);
    } else if (span.task < 2 * count) {
      kernels.backward_keys(head, span.first, span.last, scratch);
    } else {
      kernels.backward_queries(head, span.first, span.last, scratch);
    }
  });
}

// Each tile of a shared bias is summed over its heads in their order, by one thread.
void gradient_of_shared_bias(const Heads& heads) {
  const Problem& p = heads.problem();
  const int64_t slices = p.bias.size(0) * p.bias.size(1);
  const int blocks = query_blocks(static_cast<int>(p.max_k));
  const int tiles = key_tiles(static_cast<int>(p.max_k));
  const Kernels& kernels = heads.kernels();
  const size_t scratch_bytes = kernels.backward_scratch(static_cast<int>(p.dim), static_cast<int>(p.value_dim), 0);
  for (int64_t slice = 0; slice < slices; ++slice) {
    const std::vector<Head> sharing = heads.sharing_bias(slice);
    Schedule schedule(static_cast<double>(blocks) * tiles);
    for (int block = 0; block < blocks; ++block) {
      for (int tile = 0; tile < tiles; ++tile) schedule.add(block, tile, 1);
    }
    schedule.run(scratch_bytes, [&](const Span& span, const Span*, void* scratch) {
      for (int tile = span.first; tile < span.last; ++tile) {
        kernels.bias_gradient(sharing.data(), sharing.size(), static_cast<int>(span.task), tile, scratch);
      }
    });
  }
}

}  // namespace

at::Tensor new_cpu_output(const Arguments& a) {
  std::vector<int64_t> shape = a.q.sizes().vec();
  shape.back() = a.v.size(-1);
  return new_result(shape, a.q.options());
}

void forward_heads(const Heads& heads) {
  const Problem& p = heads.problem();
  double total = 0;
  for (int64_t task = 0; task < heads.count(); ++task) total += heads.cost(task);
  Schedule schedule(total);
  for (int64_t task = 0; task < heads.count(); ++task) {
    const Head head = heads.at(task);
    for (int block = 0; block < query_blocks(head.queries); ++block) schedule.add(task, block, block_cost(head, block));
  }
  const Kernels& kernels = heads.kernels();
  schedule.run(kernels.forward_scratch(static_cast<int>(p.dim), static_cast<int>(p.value_dim)),
               [&](const Span& span, const Span* next, void* scratch) {
                 Head head = heads.at(span.task);
                 const bool starts = next != nullptr && next->first == 0;
                 const Head next_head = starts ? heads.at(next->task) : Head();
                 if (starts) head.next = &next_head;
                 kernels.forward(head, span.first, span.last, scratch);
               });
}

void backward_heads(const Heads& heads) {
  if (heads.count() == 0) return;
  gradients_of_heads(heads);
  if (heads.problem().needs_bias_grad && heads.bias_is_shared()) gradient_of_shared_bias(heads);
}

}  // namespace gr_ops::hstu
