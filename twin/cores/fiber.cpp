#include "fiber.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace twin {

namespace {

constexpr uint64_t kUntouched = 0x5ca1ab1e5ca1ab1e;

void StartSwitch(void** shadow, const void* bottom, std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(shadow, bottom, bytes);
#else
  static_cast<void>(shadow);
  static_cast<void>(bottom);
  static_cast<void>(bytes);
#endif
}

void FinishSwitch(void* shadow, const void** bottom, std::size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(shadow, bottom, bytes);
#else
  static_cast<void>(shadow);
  static_cast<void>(bottom);
  static_cast<void>(bytes);
#endif
}

void* CurrentTrace() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

void* NewTrace() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}

void SwitchTrace(void* trace) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(trace, 0);
#else
  static_cast<void>(trace);
#endif
}

void DropTrace(void* trace) {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(trace);
#else
  static_cast<void>(trace);
#endif
}

}  // namespace

Fiber::~Fiber() {
  if (!stack_.empty() && trace_ != nullptr) {
    DropTrace(trace_);
  }
}

void Fiber::Prepare(void (*entry)(), std::size_t stackBytes) {
  stack_.resize(stackBytes / sizeof(uint64_t));
  for (std::size_t at = 0; at < stack_.size(); at += kProbe / sizeof(uint64_t)) {
    stack_[at] = kUntouched;
  }
  bottom_ = stack_.data();
  bytes_ = stackBytes;
  if (trace_ == nullptr) {
    trace_ = NewTrace();
  }
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_.data();
  context_.uc_stack.ss_size = stackBytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
}

std::size_t Fiber::DeepestUse() const {
  std::size_t at = 0;
  while (at < stack_.size() && stack_[at] == kUntouched) {
    at += kProbe / sizeof(uint64_t);
  }
  return at < stack_.size() ? bytes_ - at * sizeof(uint64_t) : 0;
}

void Fiber::Entered(Fiber& from) { FinishSwitch(nullptr, &from.bottom_, &from.bytes_); }

void Fiber::Switch(Fiber& from, Fiber& to, bool last) {
  if (from.stack_.empty()) {
    from.trace_ = CurrentTrace();
  }
  StartSwitch(last ? nullptr : &from.shadow_, to.bottom_, to.bytes_);
  SwitchTrace(to.trace_);
  swapcontext(&from.context_, &to.context_);
  FinishSwitch(from.shadow_, nullptr, nullptr);
}

void Fiber::Abandon(Fiber& to) {
  StartSwitch(nullptr, to.bottom_, to.bytes_);
  SwitchTrace(to.trace_);
  setcontext(&to.context_);
}

}  // namespace twin
