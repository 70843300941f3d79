#include "stream_table.h"

#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "device.h"
#include "failure.h"
#include "process.h"
#include "stream_order.h"

namespace twin {
namespace {

class Table {
 public:
  std::shared_ptr<Stream> Add(int32_t device) {
    const std::lock_guard lock(mutex_);
    return Make(device);
  }

  std::shared_ptr<Stream> Find(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(handle);
    return found == streams_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Stream> Default(int32_t device) {
    const std::lock_guard lock(mutex_);
    auto& stream = defaults_[device];
    if (stream == nullptr) {
      stream = Make(device);
    }
    return stream;
  }

  std::shared_ptr<Stream> Remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(handle);
    if (found == streams_.end()) {
      return nullptr;
    }
    auto stream = std::move(found->second);
    streams_.erase(found);
    return stream;
  }

  std::vector<std::shared_ptr<Stream>> Of(int32_t device) {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Stream>> chosen;
    for (const auto& [handle, stream] : streams_) {
      if (stream->Device() == device) {
        chosen.push_back(stream);
      }
    }
    return chosen;
  }

  std::vector<std::shared_ptr<Stream>> Take(int32_t device) {
    auto taken = Of(device);
    const std::lock_guard lock(mutex_);
    for (const auto& stream : taken) {
      streams_.erase(stream.get());
    }
    defaults_.erase(device);
    return taken;
  }

 private:
  std::shared_ptr<Stream> Make(int32_t device) {
    auto stream = std::make_shared<Stream>(nextId_++, device);
    streams_.emplace(stream.get(), stream);
    return stream;
  }

  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Stream>> streams_;
  std::map<int32_t, std::shared_ptr<Stream>> defaults_;
  int32_t nextId_ = 0;
};

// Never destroyed: other threads may submit while the process exits.
Table& Streams() {
  static Table& table = *new Table;
  return table;
}

}  // namespace

aclrtStream AddStream(int32_t device) { return Streams().Add(device).get(); }

std::shared_ptr<Stream> RemoveStream(aclrtStream handle) { return Streams().Remove(handle); }

aclError FindStream(const char* function, aclrtStream handle, std::shared_ptr<Stream>* stream) {
  if (const aclError error = RefuseForkedChild(function); error != ACL_SUCCESS) {
    return error;
  }
  if (handle == nullptr) {
    int32_t device = 0;
    if (const aclError error = RequireDevice(function, &device); error != ACL_SUCCESS) {
      return error;
    }
    *stream = Streams().Default(device);
    return ACL_SUCCESS;
  }
  *stream = Streams().Find(handle);
  if (*stream == nullptr) {
    return Fail(ACL_ERROR_RT_INVALID_HANDLE, function, "(stream=%p): not a stream, or already destroyed", handle);
  }
  const int32_t current = CurrentDevice();
  if (current >= 0 && current != (*stream)->Device()) {
    return Fail(ACL_ERROR_RT_STREAM_CONTEXT, function,
                "(stream=%d): the stream is of device %d, this thread's device is %d", (*stream)->Id(),
                (*stream)->Device(), current);
  }
  return ACL_SUCCESS;
}

std::vector<std::shared_ptr<Stream>> StreamsOf(int32_t device) { return Streams().Of(device); }

void StopDeviceStreams(int32_t device) {
  const auto streams = Streams().Take(device);
  // All are told first: a worker may wait for an event that another of them drops.
  for (const auto& stream : streams) {
    stream->RequestStop();
  }
  for (const auto& stream : streams) {
    if (!stream->OnOwnWorker()) {
      stream->AwaitStop();
    }
    if (Strict()) {
      StreamOrder::Get().HostWaited(StreamOrder::Get().Reached(*stream));
    }
  }
}

bool AbortDeviceStreams(int32_t device, Milliseconds timeout) {
  const auto streams = StreamsOf(device);
  // All are told first: a worker may wait for an event that another of them drops.
  for (const auto& stream : streams) {
    stream->BeginAbort();
  }
  bool done = true;
  for (const auto& stream : streams) {
    done = stream->EndAbort(timeout) && done;
  }
  return done;
}

void StopAllStreams() {
  for (int32_t device = 0; device < DeviceCount(); ++device) {
    StopDeviceStreams(device);
  }
}

}  // namespace twin
