#include "device.h"

#include <cstdlib>
#include <vector>

#include "default_device.h"
#include "device_failure.h"
#include "failure.h"
#include "process.h"
#include "settings.h"
#include "stream_table.h"

namespace twin {
namespace {

thread_local int32_t currentDevice = -1;

std::vector<Context>& Contexts() {
  static std::vector<Context>& contexts = *[] {
    auto* made = new std::vector<Context>;
    for (int32_t device = 0; device < DeviceCount(); ++device) {
      made->push_back({device});
    }
    return made;
  }();
  return contexts;
}

aclError CheckSettings(const char* function) {
  const auto& faults = GetSettings().faults;
  return faults.empty() ? ACL_SUCCESS : Fail(ACL_ERROR_INVALID_PARAM, function, ": %s", faults.c_str());
}

}  // namespace

int32_t DeviceCount() { return static_cast<int32_t>(GetSettings().devices.size()); }

int32_t CurrentDevice() { return currentDevice; }

void BindThread(int32_t device) { currentDevice = device; }

aclError RequireDevice(const char* function, int32_t* device) {
  if (const aclError error = RefuseForkedChild(function); error != ACL_SUCCESS) {
    return error;
  }
  *device = currentDevice >= 0 ? currentDevice : DefaultDevice();
  if (*device < 0) {
    return Fail(ACL_ERROR_RT_CONTEXT_NULL, function, ": this thread has no current device; call aclrtSetDevice");
  }
  return ACL_SUCCESS;
}

aclError CheckDeviceId(const char* function, int32_t device) {
  if (device >= 0 && device < DeviceCount()) {
    return ACL_SUCCESS;
  }
  const bool chosen = std::getenv("ASCEND_RT_VISIBLE_DEVICES") != nullptr;
  return Fail(ACL_ERROR_RT_INVALID_DEVICEID, function, "(deviceId=%d): there are %d visible devices; %s%d", device,
              DeviceCount(),
              chosen ? "see ASCEND_RT_VISIBLE_DEVICES, and set TWIN_NPU_COUNT=" : "set TWIN_NPU_COUNT=", device + 1);
}

}  // namespace twin

using namespace twin;

aclError aclrtGetDeviceCount(uint32_t* count) {
  if (count == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(count=null)");
  }
  if (const aclError error = CheckSettings(__func__); error != ACL_SUCCESS) {
    return error;
  }
  *count = static_cast<uint32_t>(DeviceCount());
  return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t deviceId) {
  if (const aclError error = CheckSettings(__func__); error != ACL_SUCCESS) {
    return error;
  }
  if (const aclError error = RefuseForkedChild(__func__); error != ACL_SUCCESS) {
    return error;
  }
  if (const aclError error = CheckDeviceId(__func__, deviceId); error != ACL_SUCCESS) {
    return error;
  }
  MarkRuntimeInUse();
  BindThread(deviceId);
  return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* deviceId) {
  if (deviceId == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(deviceId=null)");
  }
  // No text: torch_npu probes each fresh thread this way, also between a real failure and asking for its text.
  if (currentDevice < 0) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  *deviceId = currentDevice;
  return ACL_SUCCESS;
}

// Device memory stays: tensors that outlive torch_npu's exit hook may still be read by live threads.
aclError aclrtResetDevice(int32_t deviceId) {
  if (const aclError error = CheckDeviceId(__func__, deviceId); error != ACL_SUCCESS) {
    return error;
  }
  if (IsForkedChild()) {
    return ACL_SUCCESS;
  }
  StopDeviceStreams(deviceId);
  ForgiveDevice(deviceId);
  if (currentDevice == deviceId) {
    BindThread(-1);
  }
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  if (context == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(context=null)");
  }
  if (currentDevice < 0) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  *context = &Contexts()[static_cast<std::size_t>(currentDevice)];
  return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  for (Context& known : Contexts()) {
    if (&known == context) {
      BindThread(known.device);
      return ACL_SUCCESS;
    }
  }
  return Fail(ACL_ERROR_RT_CONTEXT_NULL, __func__, "(context=%p): not a context of this process", context);
}

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  if (canAccessPeer == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(canAccessPeer=null)");
  }
  for (const int32_t device : {deviceId, peerDeviceId}) {
    if (const aclError error = CheckDeviceId(__func__, device); error != ACL_SUCCESS) {
      return error;
    }
  }
  *canAccessPeer = deviceId != peerDeviceId ? 1 : 0;
  return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  if (flags != 0) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(peerDeviceId=%d, flags=%u): flags must be 0", peerDeviceId, flags);
  }
  return CheckDeviceId(__func__, peerDeviceId);
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  if (runMode == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(runMode=null)");
  }
  *runMode = ACL_HOST;
  return ACL_SUCCESS;
}
