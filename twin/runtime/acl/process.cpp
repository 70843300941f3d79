#include "process.h"

#include <pthread.h>

#include <atomic>

#include "failure.h"

namespace twin {
namespace {

std::atomic<bool> inUse{false};
std::atomic<bool> forkedChild{false};

void AfterForkInChild() {
  if (inUse.load()) {
    forkedChild.store(true);
  }
}

}  // namespace

void MarkRuntimeInUse() {
  if (!inUse.exchange(true)) {
    pthread_atfork(nullptr, nullptr, AfterForkInChild);
  }
}

bool IsForkedChild() { return forkedChild.load(std::memory_order_relaxed); }

aclError RefuseForkedChild(const char* function) {
  if (!IsForkedChild()) {
    return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_RT_FAILURE, function,
              ": this process was forked after its parent had used the device; start it with spawn instead");
}

}  // namespace twin
