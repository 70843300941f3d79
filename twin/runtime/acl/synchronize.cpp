// Waiting for streams and devices, asking how far they are, and the limits on waiting.
#include <atomic>

#include "counts.h"
#include "device.h"
#include "failure.h"
#include "log.h"
#include "stream_order.h"
#include "stream_table.h"
#include "timeouts.h"

using namespace twin;

namespace {

std::atomic<uint32_t> opWaitSeconds{0};

std::optional<Milliseconds> Limit(int32_t milliseconds) {
  return milliseconds < 0 ? std::nullopt : std::optional(Milliseconds(milliseconds));
}

aclError SynchronizeStream(const char* function, aclrtStream handle, std::optional<Milliseconds> timeout) {
  std::shared_ptr<Stream> stream;
  if (const aclError error = FindStream(function, handle, &stream); error != ACL_SUCCESS) {
    return error;
  }
  CountWait(Wait::kStream, function);
  return stream->Synchronize(function, timeout);
}

aclError SynchronizeDevice(const char* function, std::optional<Milliseconds> timeout) {
  int32_t device = 0;
  if (const aclError error = RequireDevice(function, &device); error != ACL_SUCCESS) {
    return error;
  }
  CountWait(Wait::kDevice, function);
  const auto start = std::chrono::steady_clock::now();
  aclError first = ACL_SUCCESS;
  for (const auto& stream : StreamsOf(device)) {
    auto left = timeout;
    if (left) {
      const auto used = std::chrono::steady_clock::now() - start;
      left = std::max(Milliseconds(0), *timeout - std::chrono::duration_cast<Milliseconds>(used));
    }
    const aclError error = stream->Synchronize(function, left);
    first = first == ACL_SUCCESS ? error : first;
  }
  return first;
}

}  // namespace

namespace twin {

std::optional<Milliseconds> OpWaitTimeout() {
  const uint32_t seconds = opWaitSeconds.load();
  return seconds == 0 ? std::nullopt : std::optional<Milliseconds>(std::chrono::seconds(seconds));
}

}  // namespace twin

aclError aclrtSynchronizeStream(aclrtStream stream) { return SynchronizeStream(__func__, stream, std::nullopt); }

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return SynchronizeStream(__func__, stream, Limit(timeout));
}

aclError aclrtSynchronizeDevice() { return SynchronizeDevice(__func__, std::nullopt); }

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  std::shared_ptr<Stream> found;
  if (const aclError error = FindStream(__func__, stream, &found); error != ACL_SUCCESS) {
    return error;
  }
  if (status == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(status=null)");
  }
  const auto reached = Strict() ? StreamOrder::Get().Reached(*found) : nullptr;
  const bool idle = found->Idle();
  *status = idle ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  if (idle && reached != nullptr) {
    StreamOrder::Get().HostWaited(reached);
  }
  return ACL_SUCCESS;
}

aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  opWaitSeconds.store(timeout);
  return ACL_SUCCESS;
}

// Not enforced: the limit is meant for hardware speed, and a thread cannot be stopped from outside.
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  Log(ACL_INFO, "aclrtSetOpExecuteTimeOut(%u s): accepted, not enforced by the emulation", timeout);
  return ACL_SUCCESS;
}

// Declared in no header of the wheel.
extern "C" __attribute__((visibility("default"))) aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return SynchronizeDevice(__func__, Limit(timeout));
}
