// Ends a launch whose kernel does not end. A timer on the processor time of the launching thread, so that a busy
// machine ends nobody early, signals that thread: the first signal leaves a mark that every call of the kernel language
// looks at; later ones take a kernel that makes no call out of its loop.
#pragma once
#include <csignal>
#include <cstdint>
#include <ctime>

namespace twin {

class Watchdog {
 public:
  // `leave` is called from the signal's handler, on the stack of whatever the thread runs, with its program counter.
  // It may switch away for good; returning means that the thread is not inside a kernel.
  Watchdog(void (*leave)(void* context, uint64_t programCounter), void* context);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  bool Late() const { return late_ != 0; }
  // TWIN_KERNEL_TIMEOUT in seconds.
  double Seconds() const { return seconds_; }

 private:
  static void OnSignal(int number, siginfo_t* info, void* context);

  // First member: the handler of another library's engine finds it through the signal's value.
  void (*const fire_)(Watchdog&, uint64_t programCounter);
  void (*const leave_)(void*, uint64_t);
  void* const context_;
  volatile std::sig_atomic_t late_ = 0;
  double seconds_;
  bool armed_ = false;
  timer_t timer_{};
};

}  // namespace twin
