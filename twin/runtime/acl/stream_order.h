// The strict mode (TWIN_STREAMS=strict): what is known to happen before what, and the accesses that nothing orders.
// Decided when work is submitted, from the program's own waits: no luck of timing is in it.
#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "access_history.h"
#include "acl/acl.h"
#include "settings.h"
#include "twin/access.h"
#include "vector_clock.h"

namespace twin {

class Stream;

inline bool Strict() { return GetSettings().strictStreams; }

class StreamOrder {
 public:
  using Snapshot = std::shared_ptr<const VectorClock>;

  static StreamOrder& Get();

  // An operation of `stream`, submitted now. A fault is the error of `function`.
  aclError OnStream(const char* function, const Stream& stream, const char* name, const twinAccess* accesses,
                    std::size_t count);
  // An operation that the host does itself, now.
  aclError OnHost(const char* function, const twinAccess* accesses, std::size_t count);
  // The memory is given back: what was done to it concerns nobody.
  void Forget(const void* start, std::size_t bytes);

  // What whoever waits for the work that `stream` has now will know.
  Snapshot Reached(const Stream& stream);
  void StreamWaited(const Stream& stream, const Snapshot& reached);
  void HostWaited(const Snapshot& reached);
  // A touch of pinned memory by the program that was not reported yet, as the error of `function`.
  aclError PendingFault(const char* function);

 private:
  struct Actor {
    VectorClock clock;
    std::string label;
  };

  StreamOrder() : actors_(1) { actors_[kHost].label = "the host"; }

  Actor& ActorOf(const Stream& stream);
  const char* Lasting(const char* name);
  aclError Note(const char* function, std::size_t actor, const char* name, const twinAccess* accesses,
                std::size_t count);
  std::string Text(const Conflict& conflict, std::size_t actor, const char* name, bool writes) const;

  std::mutex mutex_;
  std::vector<Actor> actors_;
  AccessHistory history_;
  std::unordered_set<std::string> names_;
};

// Whether this thread waits for the emulation and not for the program (twinWaitsForItself).
void SetWaitsForItself(bool waits);
bool WaitsForItself();

}  // namespace twin
