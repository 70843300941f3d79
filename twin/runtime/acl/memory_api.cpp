// aclrtMalloc*, aclrtFree*, aclrtGetMemInfo: the allocation functions of the runtime interface.
#include "device.h"
#include "device_memory.h"
#include "failure.h"
#include "pinned_memory.h"
#include "process.h"
#include "settings.h"
#include "stream_order.h"

using namespace twin;

namespace {

aclError Allocate(const char* function, void** devPtr, std::size_t size) {
  if (devPtr == nullptr || size == 0) {
    return Fail(ACL_ERROR_INVALID_PARAM, function, "(devPtr=%p, size=%zu): null or empty", static_cast<void*>(devPtr),
                size);
  }
  int32_t device = 0;
  if (const aclError error = RequireDevice(function, &device); error != ACL_SUCCESS) {
    return error;
  }
  auto& memory = DeviceMemory::Get();
  *devPtr = memory.Allocate(device, size);
  if (*devPtr == nullptr) {
    // Report, not Fail: torch_npu frees its cache and tries again, so this is no error for the log yet.
    char text[256];
    std::snprintf(text, sizeof text,
                  "[twin, emulated %s] %s(size=%zu): out of device memory, %zu of %zu bytes of device %d are used",
                  GetSettings().soc.c_str(), function, size, memory.Used(device), GetSettings().memoryPerDevice,
                  device);
    return Report(ACL_ERROR_RT_MEMORY_ALLOCATION, text);
  }
  return ACL_SUCCESS;
}

// In the strict mode: what is freed must not be in use.
aclError GiveBack(const char* function, const void* start, std::size_t size) {
  const twinAccess whole{start, size, true};
  const aclError error = StreamOrder::Get().OnHost(function, &whole, 1);
  StreamOrder::Get().Forget(start, size);
  return error;
}

}  // namespace

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) { return Allocate(__func__, devPtr, size); }

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return Allocate(__func__, devPtr, size);
}

// A forked child leaves the memory alone: it shares the pages, not the accounting.
aclError aclrtFree(void* devPtr) {
  if (Strict() && !IsForkedChild()) {
    const auto block = DeviceMemory::Get().Find(devPtr, 0);
    if (block && block->start == reinterpret_cast<uintptr_t>(devPtr)) {
      if (const aclError error = GiveBack(__func__, devPtr, block->size); error != ACL_SUCCESS) {
        return error;
      }
    }
  }
  if (IsForkedChild() || DeviceMemory::Get().Free(devPtr)) {
    return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "(devPtr=%p): not the start of a device allocation", devPtr);
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  if (hostPtr == nullptr || size == 0) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(hostPtr=%p, size=%zu): null or empty", static_cast<void*>(hostPtr),
                size);
  }
  if (const aclError error = RefuseForkedChild(__func__); error != ACL_SUCCESS) {
    return error;
  }
  *hostPtr = PinnedMemory::Get().Allocate(size);
  if (*hostPtr == nullptr) {
    return Fail(ACL_ERROR_BAD_ALLOC, __func__, "(size=%zu): out of host memory", size);
  }
  return ACL_SUCCESS;
}

aclError aclrtFreeHost(void* hostPtr) {
  if (Strict() && !IsForkedChild()) {
    const std::size_t size = PinnedMemory::Get().SizeOf(hostPtr);
    if (const aclError error = GiveBack(__func__, hostPtr, size); error != ACL_SUCCESS) {
      return error;
    }
  }
  if (IsForkedChild() || PinnedMemory::Get().Free(hostPtr)) {
    return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "(hostPtr=%p): not from aclrtMallocHost", hostPtr);
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  if (free == nullptr || total == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(free=%p, total=%p): null", static_cast<void*>(free),
                static_cast<void*>(total));
  }
  if (attr != ACL_HBM_MEM && attr != ACL_HBM_MEM_HUGE && attr != ACL_HBM_MEM_NORMAL) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, "(attr=%d): only HBM is emulated", static_cast<int>(attr));
  }
  int32_t device = 0;
  if (const aclError error = RequireDevice(__func__, &device); error != ACL_SUCCESS) {
    return error;
  }
  *total = GetSettings().memoryPerDevice;
  *free = *total - DeviceMemory::Get().Used(device);
  return ACL_SUCCESS;
}
