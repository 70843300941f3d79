#include "event.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "failure.h"
#include "process.h"

namespace twin {

uint64_t Event::BeginRecord(StreamOrder::Snapshot reached) {
  const std::lock_guard lock(mutex_);
  snapshot_ = std::move(reached);
  return ++begun_;
}

void Event::EndRecord(uint64_t record, const Failure& failure) {
  const std::lock_guard lock(mutex_);
  // Records on two streams may end out of order; the latest one counts.
  if (record > ended_) {
    ended_ = record;
    when_ = Clock::now();
    failure_ = failure;
  }
  reached_.notify_all();
}

void Event::Reset(uint64_t record) {
  const std::lock_guard lock(mutex_);
  reset_ = std::max(reset_, record);
}

uint64_t Event::LatestRecord() {
  const std::lock_guard lock(mutex_);
  return begun_;
}

StreamOrder::Snapshot Event::LatestReached() {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

bool Event::Recorded() {
  const std::lock_guard lock(mutex_);
  return begun_ > reset_ && ended_ >= begun_;
}

aclError Event::Wait(const char* function, uint64_t record, std::optional<Milliseconds> timeout) {
  std::unique_lock lock(mutex_);
  const auto reached = [this, record] { return ended_ >= record; };
  if (!timeout) {
    reached_.wait(lock, reached);
  } else if (!reached_.wait_for(lock, *timeout, reached)) {
    lock.unlock();
    return Fail(ACL_ERROR_RT_REPORT_TIMEOUT, function, ": the event was not reached within %lld ms",
                static_cast<long long>(timeout->count()));
  }
  // A later record of a healthy stream does not excuse this one, but its failure is no longer known.
  const Failure failure = ended_ == record ? failure_ : Failure{};
  lock.unlock();
  return failure.code == ACL_SUCCESS ? ACL_SUCCESS : Report(failure.code, failure.text);
}

std::optional<Event::Clock::time_point> Event::ReachedAt() {
  const std::lock_guard lock(mutex_);
  if (begun_ == 0 || ended_ < begun_) {
    return std::nullopt;
  }
  return when_;
}

void Event::BeginWait() {
  const std::lock_guard lock(mutex_);
  ++waits_;
}

void Event::EndWait() {
  const std::lock_guard lock(mutex_);
  --waits_;
}

bool Event::WaitsDone() {
  const std::lock_guard lock(mutex_);
  return waits_ == 0;
}

namespace {

class Table {
 public:
  aclrtEvent Add(std::shared_ptr<Event> event) {
    const std::lock_guard lock(mutex_);
    auto* handle = event.get();
    events_.emplace(handle, std::move(event));
    return handle;
  }

  std::shared_ptr<Event> Find(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = events_.find(handle);
    return found == events_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Event> Remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    auto node = events_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Event>> events_;
};

// Never destroyed: other threads may use events while the process exits.
Table& Events() {
  static Table& table = *new Table;
  return table;
}

}  // namespace

aclrtEvent AddEvent(bool timed) { return Events().Add(std::make_shared<Event>(timed)); }

std::shared_ptr<Event> RemoveEvent(aclrtEvent handle) { return Events().Remove(handle); }

aclError FindEvent(const char* function, aclrtEvent handle, std::shared_ptr<Event>* event) {
  if (const aclError error = RefuseForkedChild(function); error != ACL_SUCCESS) {
    return error;
  }
  *event = Events().Find(handle);
  if (*event == nullptr) {
    return Fail(ACL_ERROR_RT_INVALID_HANDLE, function, "(event=%p): not an event, or already destroyed", handle);
  }
  return ACL_SUCCESS;
}

}  // namespace twin
