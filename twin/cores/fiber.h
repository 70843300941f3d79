// A stack of its own that a thread runs on for a while. Sanitizers are told about every switch.
#pragma once
#include <ucontext.h>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace twin {

class Fiber {
 public:
  Fiber() = default;  // the thread's own stack, once it is switched away from
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next switch to this fiber enters `entry`, which must first call Entered() and never return.
  void Prepare(void (*entry)(), std::size_t stackBytes);
  static void Entered(Fiber& from);

  // Bytes of the stack that have been used since Prepare, to within kProbe.
  std::size_t DeepestUse() const;

  // Runs `to` until something switches back to `from`. `last`: nothing will.
  static void Switch(Fiber& from, Fiber& to, bool last = false);
  // From a signal's handler: forgets what the running fiber was doing.
  static void Abandon(Fiber& to);

 private:
  static constexpr std::size_t kProbe = 1024;

  ucontext_t context_;
  std::vector<uint64_t> stack_;
  // For the sanitizers: where the stack lies, and their own handles.
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  void* shadow_ = nullptr;
  void* trace_ = nullptr;
};

}  // namespace twin
