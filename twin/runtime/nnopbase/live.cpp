#include "live.h"

#include <array>
#include <cstdio>
#include <mutex>
#include <unordered_map>

#include "interface.h"

namespace twin {
namespace {

struct Shard {
  std::mutex mutex;
  std::unordered_map<const void*, HandleKind> kinds;
};

// Python's threads, the task queue's and autograd's make handles at the same time.
constexpr std::size_t SHARDS = 16;

Shard& ShardOf(const void* handle) {
  // Never destroyed: other threads may outlive static destruction.
  static auto& shards = *new std::array<Shard, SHARDS>;
  return shards[(reinterpret_cast<std::uintptr_t>(handle) >> 5) % SHARDS];
}

}  // namespace

void Enlist(const void* handle, HandleKind kind) {
  auto& shard = ShardOf(handle);
  const std::lock_guard lock(shard.mutex);
  shard.kinds[handle] = kind;
}

bool Strike(const void* handle, HandleKind kind) {
  auto& shard = ShardOf(handle);
  HandleKind found = HandleKind::NONE;
  {
    const std::lock_guard lock(shard.mutex);
    const auto entry = shard.kinds.find(handle);
    if (entry != shard.kinds.end()) {
      found = entry->second;
      if (found == kind) {
        shard.kinds.erase(entry);
        return true;
      }
    }
  }
  char text[160];
  std::snprintf(text, sizeof text, "[twin] destroy: %p is %s, expected %s (destroyed twice?)", handle, KindName(found),
                KindName(kind));
  twinSetErrorMessage(text);
  return false;
}

}  // namespace twin

extern "C" TWIN_API twin::HandleKind twinHandleKind(const void* address) {
  auto& shard = twin::ShardOf(address);
  const std::lock_guard lock(shard.mutex);
  const auto entry = shard.kinds.find(address);
  return entry == shard.kinds.end() ? twin::HandleKind::NONE : entry->second;
}
