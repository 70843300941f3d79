#include "descriptor.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace twin::hccl {
namespace {
// Plain atomics: the child of a fork may take no lock that another thread of the parent held.
constexpr int kTracked = 65536;
std::atomic<bool> g_open[kTracked];
std::atomic<int> g_highest{-1};

void CloseAllInChild() {
  for (int number = 0; number <= g_highest.load(); ++number) {
    if (g_open[number].exchange(false)) {
      close(number);
    }
  }
}

void Track(int number) {
  static const int registered = pthread_atfork(nullptr, nullptr, CloseAllInChild);
  static_cast<void>(registered);
  if (number >= kTracked) {
    return;
  }
  g_open[number] = true;
  int highest = g_highest;
  while (number > highest && !g_highest.compare_exchange_weak(highest, number)) {
  }
}
}  // namespace

Descriptor::Descriptor(int number) : number_(number) {
  if (number_ >= 0) {
    Track(number_);
  }
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void Descriptor::Close() noexcept {
  const int number = std::exchange(number_, -1);
  if (number < 0) {
    return;
  }
  // Not open any more: this is a forked child, and the number may by now belong to somebody else.
  if (number >= kTracked || g_open[number].exchange(false)) {
    close(number);
  }
}
}  // namespace twin::hccl
