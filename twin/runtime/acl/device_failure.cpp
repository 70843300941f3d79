#include "device_failure.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "device.h"
#include "failure.h"
#include "log.h"
#include "stream_table.h"

namespace twin {
namespace {

struct Entry {
  Failure failure;
  bool queueEnded;
  bool seen;
};

struct Table {
  std::atomic<bool> any{false};  // each task asks, few processes have a failed device
  std::mutex mutex;
  std::map<int32_t, Entry> failed;
};

// Never destroyed: other threads may ask while the process exits.
Table& Failed() {
  static Table& table = *new Table;
  return table;
}

}  // namespace

bool OnTaskQueue() {
  // The name that torch_npu gives its consumer threads; nothing else tells them from the program's own.
  char name[16] = "";
  return pthread_getname_np(pthread_self(), name, sizeof name) == 0 && std::strcmp(name, "acl_thread") == 0;
}

void FailDevice(int32_t device, Failure failure, bool queueEnded) {
  if (device < 0) {
    return;
  }
  auto& table = Failed();
  const std::lock_guard lock(table.mutex);
  table.any = true;
  const auto [entry, first] = table.failed.try_emplace(device, Entry{std::move(failure), queueEnded, false});
  entry->second.queueEnded = entry->second.queueEnded || queueEnded;
  if (first) {
    Log(ACL_ERROR, "device %d failed; every use of it fails from here on, until it is reset or the process ends",
        device);
  }
}

std::optional<Failure> FailureOfDevice(int32_t device) {
  auto& table = Failed();
  if (!table.any) {
    return std::nullopt;
  }
  const std::lock_guard lock(table.mutex);
  const auto found = table.failed.find(device);
  return found == table.failed.end() ? std::nullopt : std::optional(found->second.failure);
}

bool TaskQueueEnded(int32_t device) {
  auto& table = Failed();
  const std::lock_guard lock(table.mutex);
  const auto found = table.failed.find(device);
  return found != table.failed.end() && found->second.queueEnded;
}

aclError RefuseFailedDevice(int32_t device) {
  const auto failure = FailureOfDevice(device);
  if (!failure || OnTaskQueue()) {
    return ACL_SUCCESS;
  }
  MarkFailureSeen(device);
  return Report(failure->code, failure->text);
}

void MarkFailureSeen(int32_t device) {
  auto& table = Failed();
  const std::lock_guard lock(table.mutex);
  if (const auto found = table.failed.find(device); found != table.failed.end()) {
    found->second.seen = true;
  }
}

void ForgiveDevice(int32_t device) {
  auto& table = Failed();
  const std::lock_guard lock(table.mutex);
  table.failed.erase(device);
}

}  // namespace twin

using namespace twin;

extern "C" {

// torch.npu.stop_device and restart_device come here. Declared in no header of the wheel.
__attribute__((visibility("default"))) aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  if (const aclError error = CheckDeviceId(__func__, deviceId); error != ACL_SUCCESS) {
    return error;
  }
  if (TaskQueueEnded(deviceId)) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__,
                "(deviceId=%d): torch_npu's task queue ended with the failure, only a new process has another; "
                "with TASK_QUEUE_ENABLE=0 there is none to end. The failure was: %s",
                deviceId, FailureOfDevice(deviceId)->text.c_str());
  }
  if (!AbortDeviceStreams(deviceId, Milliseconds(timeout))) {
    return Fail(ACL_ERROR_RT_REPORT_TIMEOUT, __func__, "(deviceId=%d, timeout=%u ms): a task is still running",
                deviceId, timeout);
  }
  ForgiveDevice(deviceId);
  return ACL_SUCCESS;
}

__attribute__((visibility("default"))) int32_t twinRefuseFailedDevice() {
  int32_t device = CurrentDevice();
  return device < 0 ? ACL_SUCCESS : RefuseFailedDevice(device);
}

// For the test plugin: whether a call has returned the device's failure to the program.
__attribute__((visibility("default"))) int32_t twinDeviceFailureSeen(int32_t device) {
  auto& table = Failed();
  const std::lock_guard lock(table.mutex);
  const auto found = table.failed.find(device);
  return found != table.failed.end() && found->second.seen ? 1 : 0;
}

// For the test plugin: the first failure of the device, or null. The text lives until this thread asks again.
__attribute__((visibility("default"))) const char* twinDeviceFailure(int32_t device) {
  static thread_local char text[4096];
  const auto failure = FailureOfDevice(device);
  if (!failure) {
    return nullptr;
  }
  std::strncpy(text, failure->text.c_str(), sizeof text - 1);
  return text;
}
}
