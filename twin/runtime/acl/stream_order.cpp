#include "stream_order.h"

#include <pthread.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "device_memory.h"
#include "failure.h"
#include "pinned_guard.h"
#include "pinned_memory.h"
#include "stream.h"

namespace twin {
namespace {

thread_local bool waitsForItself = false;

// torch_npu's watchdog asks the events of every collective until they are reached. What it sees it tells nobody; would
// it count, an unordered use of a collective's result would be found or not by the moment at which the watchdog looks.
bool IsWatchdog() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return std::strncmp(name, "hccl_watchdog", 13) == 0;
}

bool IsWatched(const twinAccess& access) {
  return DeviceMemory::Get().Overlaps(access.start, access.bytes) ||
         PinnedMemory::Get().Holds(access.start, access.bytes);
}

const char* Remedy(bool withHost) {
  return withHost ? "wait for the stream before: stream.synchronize() or event.synchronize()"
                  : "order them: stream.wait_stream(other), event.record() and stream.wait_event(event), work.wait() "
                    "for a collective; where the memory was freed and given out again: "
                    "tensor.record_stream(stream) for the tensor that was freed";
}

}  // namespace

void SetWaitsForItself(bool waits) { waitsForItself = waits; }

bool WaitsForItself() { return waitsForItself; }

// Never destroyed: other threads may submit while the process exits.
StreamOrder& StreamOrder::Get() {
  static StreamOrder& order = *new StreamOrder;
  return order;
}

StreamOrder::Actor& StreamOrder::ActorOf(const Stream& stream) {
  const auto index = static_cast<std::size_t>(stream.Id()) + 1;
  if (index >= actors_.size()) {
    actors_.resize(index + 1);
  }
  Actor& actor = actors_[index];
  if (actor.label.empty()) {
    actor.label = "stream " + std::to_string(stream.Id()) + " of device " + std::to_string(stream.Device());
  }
  return actor;
}

const char* StreamOrder::Lasting(const char* name) { return names_.emplace(name).first->c_str(); }

std::string StreamOrder::Text(const Conflict& conflict, std::size_t actor, const char* name, bool writes) const {
  char range[96];
  std::snprintf(range, sizeof range, "0x%" PRIxPTR "..0x%" PRIxPTR " (%zu bytes)", conflict.begin, conflict.end,
                static_cast<std::size_t>(conflict.end - conflict.begin));
  const bool withHost = actor == kHost || conflict.earlier.actor == kHost;
  return std::string(": nothing orders two uses of the memory ") + range + ": '" + name + "' on " +
         actors_[actor].label + (writes ? " writes" : " reads") + " what '" + conflict.earlier.name + "' on " +
         actors_[conflict.earlier.actor].label + (conflict.earlierWrites ? " writes; " : " reads; ") +
         Remedy(withHost) + " (TWIN_STREAMS=strict)";
}

aclError StreamOrder::Note(const char* function, std::size_t actor, const char* name, const twinAccess* accesses,
                           std::size_t count) {
  const Point point{actor, actors_[actor].clock.Advance(actor), Lasting(name)};
  std::string fault;
  for (std::size_t i = 0; i < count; ++i) {
    const twinAccess& access = accesses[i];
    if (access.bytes == 0 || !IsWatched(access)) {
      continue;
    }
    const auto begin = reinterpret_cast<uintptr_t>(access.start);
    const auto conflict = history_.Note(begin, begin + access.bytes, access.writes, point, actors_[actor].clock);
    if (conflict && fault.empty()) {
      fault = Text(*conflict, actor, point.name, access.writes);
    }
    if (actor != kHost && PinnedMemory::Get().Holds(access.start, access.bytes)) {
      PinnedGuard::Get().Begin(access, point, actors_[actor].label);
    }
  }
  return fault.empty() ? ACL_SUCCESS : Fail(ACL_ERROR_RT_FAILURE, function, "%s", fault.c_str());
}

aclError StreamOrder::OnStream(const char* function, const Stream& stream, const char* name, const twinAccess* accesses,
                               std::size_t count) {
  if (const aclError error = PendingFault(function); error != ACL_SUCCESS) {
    return error;
  }
  const std::lock_guard lock(mutex_);
  ActorOf(stream).clock.Join(actors_[kHost].clock);
  return Note(function, static_cast<std::size_t>(stream.Id()) + 1, name, accesses, count);
}

aclError StreamOrder::OnHost(const char* function, const twinAccess* accesses, std::size_t count) {
  const std::lock_guard lock(mutex_);
  return Note(function, kHost, function, accesses, count);
}

void StreamOrder::Forget(const void* start, std::size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(start);
  const std::lock_guard lock(mutex_);
  history_.Forget(begin, begin + bytes);
}

StreamOrder::Snapshot StreamOrder::Reached(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  Actor& actor = ActorOf(stream);
  actor.clock.Join(actors_[kHost].clock);
  return std::make_shared<const VectorClock>(actor.clock);
}

void StreamOrder::StreamWaited(const Stream& stream, const Snapshot& reached) {
  if (reached != nullptr) {
    const std::lock_guard lock(mutex_);
    ActorOf(stream).clock.Join(*reached);
  }
}

void StreamOrder::HostWaited(const Snapshot& reached) {
  if (reached == nullptr || waitsForItself || IsWatchdog()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  VectorClock& host = actors_[kHost].clock;
  host.Join(*reached);
  PinnedGuard::Get().End(host);
}

aclError StreamOrder::PendingFault(const char* function) {
  const auto fault = PinnedGuard::Get().TakeFault();
  if (!fault) {
    return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_RT_FAILURE, function, ": found since the last call: %s; %s (TWIN_STREAMS=strict)",
              fault->c_str(), Remedy(true));
}

}  // namespace twin

extern "C" {

__attribute__((visibility("default"))) bool twinStrictStreams() { return twin::Strict(); }

__attribute__((visibility("default"))) void twinWaitsForItself(bool waits) { twin::SetWaitsForItself(waits); }
}
