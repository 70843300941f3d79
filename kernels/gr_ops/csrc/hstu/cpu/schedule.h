#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

// Shares work of known cost among the threads of at::parallel_for.
namespace gr_ops::hstu {

// A run of items [first, last) of one task, for example query blocks of one head.
struct Span {
  int64_t task;
  int first, last;
};

// The threads that a schedule shares its work among.
int schedule_threads();

// Collects the items of all tasks in order, cut into spans of nearly equal cost, many per thread.
class Schedule {
 public:
  // total: the cost of everything that will be added.
  explicit Schedule(double total);
  void add(int64_t task, int item, double cost);
  // Calls work(span, next, scratch) for every span, spans taken in order by whichever thread is free. Each thread has
  // scratch_bytes of its own, aligned to 64 bytes. next: the span that the thread is likely to take then, or null.
  void run(size_t scratch_bytes, const std::function<void(const Span&, const Span*, void*)>& work) const;

 private:
  double limit_;
  double filled_ = 0;
  std::vector<Span> spans_;
};

}  // namespace gr_ops::hstu
