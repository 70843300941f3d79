// What libascendcl offers to the twin's other libraries: ordered work on a stream, device memory, error text.
#pragma once
#include <cstddef>
#include <cstdint>

#include "acl/acl.h"

extern "C" {

// Queues `task(argument)` behind the stream's earlier work. `drop(argument)` is always called once, after the task
// ran or was skipped because an earlier task of the stream failed. A null stream means the device's default stream.
// `task` returns 0 or an acl error code; its text is what it left with twinSetErrorMessage.
aclError twinStreamSubmit(aclrtStream stream, const char* name, int32_t (*task)(void*), void (*drop)(void*),
                          void* argument);

// Text behind aclGetRecentErrMsg. Kept per thread; a stream's worker hands its text to whoever synchronises.
void twinSetErrorMessage(const char* message);

// 0, or the first failure of this thread's device, which stays failed until it is reset; its text is kept as above.
// The consumer thread of torch_npu's task queue is let through.
int32_t twinRefuseFailedDevice(void);

// The device allocation that holds [address, address + bytes): writes its start and size, or returns false.
bool twinDeviceAllocation(const void* address, std::size_t bytes, const void** start, std::size_t* size);
}

#ifdef __cplusplus
#include <functional>
#include <utility>

namespace twin {
inline aclError Submit(aclrtStream stream, const char* name, std::function<int32_t()> task) {
  auto* owned = new std::function<int32_t()>(std::move(task));
  return twinStreamSubmit(
      stream, name, [](void* p) { return (*static_cast<std::function<int32_t()>*>(p))(); },
      [](void* p) { delete static_cast<std::function<int32_t()>*>(p); }, owned);
}
}  // namespace twin
#endif
