#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace embcache {

// Threads that wait for a disk: random reads of a batch go out side by side, whatever the number of cores.
class IoPool {
 public:
  explicit IoPool(int threads);
  ~IoPool();
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  // Calls body(begin, end) on shares of [0, count), of at least `grain` where other threads get some. The calling
  // thread begins alone, and asks the others for help once it has waited: what is in memory is read before they are
  // awake. The first exception is rethrown after all shares have ended. One call at a time has help; others wait for
  // it.
  void run(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  // Returns where it stopped: at count, or where it had to wait.
  static int64_t begin_alone(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);
  void work();
  // Takes shares until none is left.
  void drain(std::unique_lock<std::mutex>& lock);

  std::mutex caller_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(int64_t, int64_t)>* body_ = nullptr;
  int64_t next_ = 0;
  int64_t count_ = 0;
  int64_t share_ = 1;
  int64_t running_ = 0;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace embcache
