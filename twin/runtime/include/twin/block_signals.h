// For the start of a thread: it inherits that all signals are blocked.
#pragma once
#include <pthread.h>
#include <signal.h>

namespace twin {
// Signals belong to the program's own threads: Python must see Ctrl-C, not a worker.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_{};
};
}  // namespace twin
