#include "hstu/cpu/schedule.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>

namespace gr_ops::hstu {
namespace {

// The last span to finish idles the other threads for at most this part of the whole.
constexpr int kSpansPerThread = 16;

}  // namespace

int schedule_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

Schedule::Schedule(double total)
    : limit_(schedule_threads() == 1 ? total : total / (schedule_threads() * kSpansPerThread)) {}

void Schedule::add(int64_t task, int item, double cost) {
  const bool extends = !spans_.empty() && spans_.back().task == task && spans_.back().last == item;
  if (extends && filled_ + cost <= limit_) {
    spans_.back().last = item + 1;
    filled_ += cost;
  } else {
    spans_.push_back({task, item, item + 1});
    filled_ = cost;
  }
}

void Schedule::run(size_t scratch_bytes, const std::function<void(const Span&, const Span*, void*)>& work) const {
  if (spans_.empty()) return;
  const auto workers = static_cast<int64_t>(std::min<size_t>(schedule_threads(), spans_.size()));
  std::atomic<size_t> next{0};
  at::parallel_for(0, workers, 1, [&](int64_t begin, int64_t end) {
    const at::DataPtr scratch = c10::GetCPUAllocator()->allocate(scratch_bytes);
    for (int64_t worker = begin; worker < end; ++worker) {
      for (size_t i = next++; i < spans_.size(); i = next++) {
        const size_t after = i + static_cast<size_t>(workers);
        work(spans_[i], after < spans_.size() ? &spans_[after] : nullptr, scratch.get());
      }
    }
  });
}

}  // namespace gr_ops::hstu
