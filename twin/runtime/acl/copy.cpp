// aclrtMemcpy*, aclrtMemset. A host pointer given as device memory is the commonest fault of a plugin, so each
// side of a copy is held against the map of device allocations.
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "counts.h"
#include "device.h"
#include "device_failure.h"
#include "device_memory.h"
#include "failure.h"
#include "pinned_guard.h"
#include "pinned_memory.h"
#include "process.h"
#include "settings.h"
#include "stream_order.h"
#include "stream_table.h"

using namespace twin;

namespace {

struct Copy {
  void* to;
  std::size_t room;
  const void* from;
  std::size_t bytes;
  aclrtMemcpyKind kind;

  bool ToDevice() const { return kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE; }
  bool FromDevice() const { return kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE; }
};

aclError Refuse(const char* function, const Copy& copy, const char* reason) {
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function, "(dst=%p, destMax=%zu, src=%p, count=%zu, kind=%d): %s", copy.to,
              copy.room, copy.from, copy.bytes, static_cast<int>(copy.kind), reason);
}

const char* FaultOfSide(const void* address, std::size_t bytes, bool device, const char* const reasons[2]) {
  auto& memory = DeviceMemory::Get();
  if (device) {
    return memory.Find(address, bytes) ? nullptr : reasons[0];
  }
  return memory.Overlaps(address, bytes) ? reasons[1] : nullptr;
}

aclError Check(const char* function, const Copy& copy) {
  static const char* const destination[2] = {"dst is not inside one device allocation",
                                             "dst is device memory, the kind says host"};
  static const char* const source[2] = {"src is not inside one device allocation",
                                        "src is device memory, the kind says host"};
  if (const aclError error = RefuseForkedChild(function); error != ACL_SUCCESS) {
    return error;
  }
  if (const aclError error = RefuseFailedDevice(CurrentDevice()); error != ACL_SUCCESS) {
    return error;
  }
  if (copy.kind < ACL_MEMCPY_HOST_TO_HOST || copy.kind > ACL_MEMCPY_DEVICE_TO_DEVICE) {
    return Refuse(function, copy, "unknown kind");
  }
  if (copy.bytes > copy.room) {
    return Refuse(function, copy, "count is greater than destMax");
  }
  if (copy.bytes == 0) {
    return ACL_SUCCESS;
  }
  if (copy.to == nullptr || copy.from == nullptr) {
    return Refuse(function, copy, "null pointer");
  }
  if (const char* fault = FaultOfSide(copy.to, copy.bytes, copy.ToDevice(), destination); fault != nullptr) {
    return Refuse(function, copy, fault);
  }
  if (const char* fault = FaultOfSide(copy.from, copy.bytes, copy.FromDevice(), source); fault != nullptr) {
    return Refuse(function, copy, fault);
  }
  return ACL_SUCCESS;
}

// The strict mode keeps the program away from pinned memory in use, not the runtime.
Copy Opened(const Copy& copy) {
  Copy opened = copy;
  opened.to = PinnedGuard::Get().Open(copy.to);
  opened.from = PinnedGuard::Get().Open(copy.from);
  return opened;
}

std::array<twinAccess, 2> UsesOf(const Copy& copy) {
  return {{{copy.from, copy.bytes, false}, {copy.to, copy.bytes, true}}};
}

bool PinnedHost(const Copy& copy) {
  auto& memory = PinnedMemory::Get();
  return (!copy.ToDevice() && memory.Holds(copy.to, copy.bytes)) ||
         (!copy.FromDevice() && memory.Holds(copy.from, copy.bytes));
}

void Count(const char* function, const Copy& copy, bool blocking) {
  if (Counting()) {
    Counts::Get().AddCopy(function, {copy.kind, PinnedHost(copy), blocking}, copy.bytes);
  }
}

// A device that computes nothing holds zeros, and its memory is not touched.
bool IsIdle() { return !GetSettings().computes; }

void Move(const Copy& copy) {
  if (!IsIdle()) {
    std::memmove(copy.to, copy.from, copy.bytes);
  } else if (!copy.ToDevice()) {
    std::memset(copy.to, 0, copy.bytes);
  }
}

class CopyTask final : public Task {
 public:
  explicit CopyTask(const Copy& copy) : Task("aclrtMemcpyAsync"), copy_(copy) {
    if (IsIdle()) {
      return;
    }
    // The caller may reuse pageable host memory at once, so it is read now.
    if (!copy.FromDevice() && !PinnedMemory::Get().Holds(copy.from, copy.bytes)) {
      const auto* begin = static_cast<const unsigned char*>(copy.from);
      staged_.assign(begin, begin + copy.bytes);
      copy_.from = staged_.data();
    }
    if (Strict()) {
      copy_ = Opened(copy_);
    }
  }
  aclError Run() override {
    Move(copy_);
    return ACL_SUCCESS;
  }

 private:
  Copy copy_;
  std::vector<unsigned char> staged_;
};

}  // namespace

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  const Copy copy{dst, destMax, src, count, kind};
  if (const aclError error = Check(__func__, copy); error != ACL_SUCCESS) {
    return error;
  }
  if (count == 0) {
    return ACL_SUCCESS;
  }
  Count(__func__, copy, /*blocking=*/true);
  if (Strict()) {
    const auto accesses = UsesOf(copy);
    const aclError error = StreamOrder::Get().OnHost(__func__, accesses.data(), accesses.size());
    if (error != ACL_SUCCESS) {
      return error;
    }
    Move(Opened(copy));
    return ACL_SUCCESS;
  }
  Move(copy);
  return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  const Copy copy{dst, destMax, src, count, kind};
  if (const aclError error = Check(__func__, copy); error != ACL_SUCCESS) {
    return error;
  }
  std::shared_ptr<Stream> found;
  if (const aclError error = FindStream(__func__, stream, &found); error != ACL_SUCCESS) {
    return error;
  }
  if (count == 0) {
    return ACL_SUCCESS;
  }
  if (Strict()) {
    const auto accesses = UsesOf(copy);
    const aclError error = StreamOrder::Get().OnStream(__func__, *found, __func__, accesses.data(), accesses.size());
    if (error != ACL_SUCCESS) {
      return error;
    }
  }
  if (const aclError error = found->Submit(__func__, std::make_unique<CopyTask>(copy)); error != ACL_SUCCESS) {
    return error;
  }
  // Pageable host memory must be complete on return: nobody knows when it is read.
  const bool pageable = !copy.ToDevice() && !PinnedMemory::Get().Holds(dst, count);
  Count(__func__, copy, pageable);
  return pageable ? found->Synchronize(__func__, std::nullopt) : ACL_SUCCESS;
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  if (const aclError error = RefuseForkedChild(__func__); error != ACL_SUCCESS) {
    return error;
  }
  if (const aclError error = RefuseFailedDevice(CurrentDevice()); error != ACL_SUCCESS) {
    return error;
  }
  const bool known = DeviceMemory::Get().Find(devPtr, count) || PinnedMemory::Get().Holds(devPtr, count);
  if (count > maxCount || !known) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "(devPtr=%p, maxCount=%zu, value=%d, count=%zu): %s", devPtr,
                maxCount, value, count,
                known ? "count is greater than maxCount" : "not inside one device or pinned allocation");
  }
  CountWait(Wait::kCopy, __func__);
  if (IsIdle()) {
    return ACL_SUCCESS;
  }
  if (Strict()) {
    const twinAccess access{devPtr, count, true};
    if (const aclError error = StreamOrder::Get().OnHost(__func__, &access, 1); error != ACL_SUCCESS) {
      return error;
    }
    std::memset(PinnedGuard::Get().Open(devPtr), value, count);
    return ACL_SUCCESS;
  }
  std::memset(devPtr, value, count);
  return ACL_SUCCESS;
}
