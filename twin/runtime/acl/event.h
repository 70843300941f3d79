// An event: a point in a stream that hosts and other streams wait for. Records are numbered; a wait is for the
// record that was the latest when the wait was asked for, so that an event can be recorded again at once.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "stream.h"
#include "stream_order.h"

namespace twin {

class Event {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Event(bool timed) : timed_(timed) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  bool Timed() const { return timed_; }

  // `reached` is what a wait for this record teaches in the strict mode; null outside it.
  uint64_t BeginRecord(StreamOrder::Snapshot reached);
  void EndRecord(uint64_t record, const Failure& failure);
  // Forgets `record` unless a later one was begun.
  void Reset(uint64_t record);

  uint64_t LatestRecord();
  StreamOrder::Snapshot LatestReached();
  bool Recorded();
  // The failure of the stream that should have recorded, or a timeout on behalf of `function`.
  aclError Wait(const char* function, uint64_t record, std::optional<Milliseconds> timeout);
  // When the latest record was reached; nothing while it is not.
  std::optional<Clock::time_point> ReachedAt();

  void BeginWait();
  void EndWait();
  bool WaitsDone();

 private:
  const bool timed_;
  std::mutex mutex_;
  std::condition_variable reached_;
  uint64_t begun_ = 0;
  uint64_t ended_ = 0;
  uint64_t reset_ = 0;
  uint64_t waits_ = 0;
  Clock::time_point when_;
  StreamOrder::Snapshot snapshot_;
  Failure failure_;
};

aclrtEvent AddEvent(bool timed);
std::shared_ptr<Event> RemoveEvent(aclrtEvent handle);
aclError FindEvent(const char* function, aclrtEvent handle, std::shared_ptr<Event>* event);

}  // namespace twin
