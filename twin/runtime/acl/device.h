// Devices and contexts. The current device belongs to a thread; the context is one object per device.
#pragma once
#include <cstdint>

#include "acl/acl.h"

namespace twin {

struct Context {
  int32_t device;
};

int32_t DeviceCount();

// The thread's device, or -1 when it has set none.
int32_t CurrentDevice();
void BindThread(int32_t device);

// Writes the thread's device, else the default one (default_device.h), or fails with "no current context" on behalf of
// `function`.
aclError RequireDevice(const char* function, int32_t* device);
aclError CheckDeviceId(const char* function, int32_t device);

}  // namespace twin
