#include "entry.h"

#include <mutex>
#include <unordered_map>
#include <utility>

namespace twin::hccl {
namespace {
struct Handles {
  std::mutex mutex;
  std::unordered_map<HcclComm, std::shared_ptr<Communicator>> communicators;
};

Handles& All() {
  static auto* handles = new Handles;  // never destroyed: threads may still call while the process exits
  return *handles;
}

[[noreturn]] void ThrowUnknown() {
  throw Failure(HCCL_E_PARA, "the communicator handle is unknown or already destroyed");
}
}  // namespace

void RequirePointer(const void* pointer, const char* name) {
  if (pointer == nullptr) {
    throw Failure(HCCL_E_PTR, std::string(name) + " is null");
  }
}

HcclComm MakeHandle(std::shared_ptr<Communicator> comm) {
  const HcclComm handle = comm.get();
  const std::lock_guard<std::mutex> lock(All().mutex);
  All().communicators.emplace(handle, std::move(comm));
  return handle;
}

std::shared_ptr<Communicator> Find(HcclComm handle) {
  RequirePointer(handle, "comm");
  const std::lock_guard<std::mutex> lock(All().mutex);
  const auto found = All().communicators.find(handle);
  if (found == All().communicators.end()) {
    ThrowUnknown();
  }
  return found->second;
}

std::shared_ptr<Communicator> TakeHandle(HcclComm handle) {
  RequirePointer(handle, "comm");
  const std::lock_guard<std::mutex> lock(All().mutex);
  const auto found = All().communicators.find(handle);
  if (found == All().communicators.end()) {
    ThrowUnknown();
  }
  auto comm = std::move(found->second);
  All().communicators.erase(found);
  return comm;
}
}  // namespace twin::hccl
