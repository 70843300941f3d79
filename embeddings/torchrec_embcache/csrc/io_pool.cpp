#include "io_pool.h"

#include <algorithm>
#include <chrono>

namespace embcache {
namespace {

constexpr int64_t kFirst = 8;                  // of the first share, when nothing is known of the disk
constexpr std::chrono::microseconds kSlow{4};  // of one: a read from memory takes less, one from a disk more

}  // namespace

IoPool::IoPool(int threads) {
  for (int k = 1; k < threads; ++k) threads_.emplace_back([this] { work(); });
}

IoPool::~IoPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void IoPool::run(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  const auto workers = static_cast<int64_t>(threads_.size()) + 1;
  if (count <= grain || workers == 1) {
    if (count > 0) body(0, count);
    return;
  }
  const int64_t done = begin_alone(count, grain, body);
  if (done == count) return;
  const std::lock_guard<std::mutex> caller(caller_);
  std::unique_lock<std::mutex> lock(mutex_);
  body_ = &body;
  next_ = done;
  count_ = count;
  share_ = std::max(grain, (count - done + workers * 4 - 1) / (workers * 4));
  failure_ = nullptr;
  wake_.notify_all();
  drain(lock);
  done_.wait(lock, [this] { return running_ == 0; });
  body_ = nullptr;
  if (failure_) std::rethrow_exception(failure_);
}

int64_t IoPool::begin_alone(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  int64_t done = 0;
  for (int64_t share = std::min(kFirst, grain); done < count; share = grain) {
    const int64_t end = std::min(done + share, count);
    const auto start = std::chrono::steady_clock::now();
    body(done, end);
    const auto taken = std::chrono::steady_clock::now() - start;
    const bool slow = taken > (end - done) * kSlow;
    done = end;
    if (slow) break;
  }
  return done;
}

void IoPool::drain(std::unique_lock<std::mutex>& lock) {
  while (body_ != nullptr && next_ < count_) {
    const int64_t begin = next_;
    const int64_t end = std::min(begin + share_, count_);
    const auto* body = body_;
    next_ = end;
    ++running_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      (*body)(begin, end);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    if (--running_ == 0) done_.notify_all();
  }
}

void IoPool::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || (body_ != nullptr && next_ < count_); });
    if (stop_) return;
    drain(lock);
  }
}

}  // namespace embcache
