#include "watchdog.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace twin {

namespace {

constexpr double kDefaultSeconds = 300;
// A call of the kernel language takes less than this: who makes one within it finds the mark and ends in order.
constexpr long kGraceNanoseconds = 500'000'000;

int Signal() { return SIGRTMAX - 5; }

double SecondsFromEnvironment() {
  const char* text = std::getenv("TWIN_KERNEL_TIMEOUT");
  if (text == nullptr || *text == '\0') {
    return kDefaultSeconds;
  }
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  return *end == '\0' && std::isfinite(seconds) && seconds >= 0 ? seconds : kDefaultSeconds;
}

uint64_t ProgramCounter(const void* context) {
  const auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uint64_t>(machine->gregs[REG_RIP]);
#elif defined(__aarch64__)
  return machine->pc;
#else
  return 0;
#endif
}

timespec Duration(double seconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  if (time.tv_sec == 0 && time.tv_nsec == 0) {
    time.tv_nsec = 1;
  }
  return time;
}

}  // namespace

// 0 seconds: no limit.
Watchdog::Watchdog(void (*leave)(void*, uint64_t), void* context)
    : fire_([](Watchdog& self, uint64_t programCounter) {
        if (self.late_ == 0) {
          self.late_ = 1;
        } else {
          self.leave_(self.context_, programCounter);
        }
      }),
      leave_(leave),
      context_(context),
      seconds_(SecondsFromEnvironment()) {
  if (seconds_ == 0) {
    return;
  }
  struct sigaction action{};
  action.sa_sigaction = &Watchdog::OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(Signal(), &action, nullptr);
  // A stream's worker blocks all signals.
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, Signal());
  pthread_sigmask(SIG_UNBLOCK, &own, nullptr);

  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = Signal();
  event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
  event.sigev_value.sival_ptr = this;
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) != 0) {
    return;
  }
  armed_ = true;
  itimerspec when{};
  when.it_value = Duration(seconds_);
  when.it_interval.tv_nsec = kGraceNanoseconds;
  timer_settime(timer_, 0, &when, nullptr);
}

Watchdog::~Watchdog() {
  if (armed_) {
    // A deleted timer's signal may still be on its way: it would find this object gone.
    timer_delete(timer_);
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, Signal());
    pthread_sigmask(SIG_BLOCK, &own, nullptr);
    const timespec now{};
    while (sigtimedwait(&own, nullptr, &now) > 0) {
    }
  }
}

void Watchdog::OnSignal(int, siginfo_t* info, void* context) {
  if (info->si_code != SI_TIMER || info->si_value.sival_ptr == nullptr) {
    return;
  }
  const int before = errno;
  auto* watchdog = static_cast<Watchdog*>(info->si_value.sival_ptr);
  watchdog->fire_(*watchdog, ProgramCounter(context));
  errno = before;
}

}  // namespace twin
