// Streams and events of libascendcl under many threads: order inside a stream, between streams by events, results for
// whoever synchronises, failures, destruction while others work.
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "check.h"
#include "twin/stream.h"

namespace {

using sanitized::InThreads;
using sanitized::Require;

constexpr unsigned kThreads = 4;
constexpr int kRounds = 25;
constexpr std::size_t kWords = 512;
constexpr std::size_t kBytes = kWords * sizeof(uint64_t);

class DeviceWords {
 public:
  DeviceWords() { CALL(aclrtMalloc(&data_, kBytes, ACL_MEM_MALLOC_HUGE_FIRST)); }
  ~DeviceWords() { aclrtFree(data_); }
  DeviceWords(const DeviceWords&) = delete;
  DeviceWords& operator=(const DeviceWords&) = delete;
  uint64_t* Data() const { return static_cast<uint64_t*>(data_); }

 private:
  void* data_ = nullptr;
};

// Host -> device -> device on a second stream -> host on a third, ordered by events alone.
void Relay(unsigned thread) {
  CALL(aclrtSetDevice(0));
  aclrtStream streams[3];
  aclrtEvent events[2];
  for (auto& stream : streams) {
    CALL(aclrtCreateStream(&stream));
  }
  for (auto& event : events) {
    CALL(aclrtCreateEvent(&event));
  }
  const DeviceWords first;
  const DeviceWords second;
  std::vector<uint64_t> out(kWords);
  std::vector<uint64_t> in(kWords);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kWords; ++i) {
      out[i] = thread * 1000000u + static_cast<uint64_t>(round) * 1000u + i;
    }
    CALL(aclrtMemcpyAsync(first.Data(), kBytes, out.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE, streams[0]));
    CALL(aclrtRecordEvent(events[0], streams[0]));
    CALL(aclrtStreamWaitEvent(streams[1], events[0]));
    CALL(aclrtMemcpyAsync(second.Data(), kBytes, first.Data(), kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, streams[1]));
    CALL(aclrtRecordEvent(events[1], streams[1]));
    CALL(aclrtStreamWaitEvent(streams[2], events[1]));
    CALL(aclrtMemcpyAsync(in.data(), kBytes, second.Data(), kBytes, ACL_MEMCPY_DEVICE_TO_HOST, streams[2]));
    aclrtEventRecordedStatus recorded;
    CALL(aclrtQueryEventStatus(events[1], &recorded));
    CALL(aclrtSynchronizeStream(streams[2]));
    Require(in == out, "a relay lost its data");
    CALL(aclrtQueryEventStatus(events[1], &recorded));
    Require(recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE, "an event that was waited for is not complete");
  }
  CALL(aclrtSynchronizeEvent(events[1]));
  float milliseconds = -1;
  CALL(aclrtEventElapsedTime(&milliseconds, events[0], events[1]));
  Require(milliseconds >= 0, "time ran backwards");
  for (auto& event : events) {
    CALL(aclrtDestroyEvent(event));
  }
  for (auto& stream : streams) {
    CALL(aclrtDestroyStream(stream));
  }
}

// Tasks of several threads on one stream run one at a time: a plain counter is enough.
void SharedStream() {
  aclrtStream stream;
  CALL(aclrtCreateStream(&stream));
  uint64_t counter = 0;
  InThreads(kThreads, [&](unsigned) {
    CALL(aclrtSetDevice(0));
    for (int i = 0; i < 10 * kRounds; ++i) {
      CALL(twin::Submit(stream, "count", [&counter] {
        ++counter;
        return 0;
      }));
    }
    CALL(aclrtSynchronizeStream(stream));
  });
  Require(counter == uint64_t{kThreads} * 10 * kRounds, "tasks were lost");
  CALL(aclrtDestroyStream(stream));
}

// A failed task is reported to one of those who wait, with its text.
void Failures() {
  InThreads(kThreads, [](unsigned thread) {
    CALL(aclrtSetDevice(0));
    aclrtStream stream;
    CALL(aclrtCreateStream(&stream));
    for (int i = 0; i < kRounds; ++i) {
      CALL(twin::Submit(stream, "break", [thread] {
        twinSetErrorMessage(("fault of thread " + std::to_string(thread)).c_str());
        return static_cast<int32_t>(ACL_ERROR_RT_AICORE_EXCEPTION);
      }));
      Require(aclrtSynchronizeStream(stream) == ACL_ERROR_RT_AICORE_EXCEPTION, "a failure was not reported");
      const std::string text = aclGetRecentErrMsg();
      Require(text.find("fault of thread " + std::to_string(thread)) != std::string::npos, "another text: " + text);
    }
    CALL(aclrtDestroyStream(stream));
  });
}

// Everybody waits for the device while streams come and go.
void DeviceWide() {
  InThreads(kThreads, [](unsigned thread) {
    CALL(aclrtSetDevice(0));
    std::atomic<int> done{0};
    for (int i = 0; i < kRounds; ++i) {
      if (thread == 0) {
        CALL(aclrtSynchronizeDevice());
        continue;
      }
      aclrtStream stream;
      CALL(aclrtCreateStream(&stream));
      CALL(twin::Submit(stream, "mark", [&done] {
        ++done;
        return 0;
      }));
      CALL(aclrtSynchronizeStream(stream));
      Require(done == i + 1, "a task did not run");
      CALL(aclrtDestroyStream(stream));
    }
  });
}

// A stream that is destroyed by force drops its tasks, each exactly once.
void Destroyed() {
  InThreads(kThreads, [](unsigned) {
    CALL(aclrtSetDevice(0));
    for (int i = 0; i < kRounds; ++i) {
      aclrtStream stream;
      CALL(aclrtCreateStream(&stream));
      auto dropped = std::make_shared<std::atomic<int>>(0);
      for (int t = 0; t < 8; ++t) {
        CALL(twinStreamSubmit(
            stream, "late", [](void*) { return 0; },
            [](void* counter) {
              auto* owned = static_cast<std::shared_ptr<std::atomic<int>>*>(counter);
              ++**owned;
              delete owned;
            },
            new std::shared_ptr<std::atomic<int>>(dropped)));
      }
      CALL(aclrtDestroyStreamForce(stream));
      Require(*dropped == 8, "a dropped task was not released");
    }
  });
}

}  // namespace

int main() {
  return sanitized::Main("streams", [] {
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    InThreads(kThreads, Relay);
    SharedStream();
    Failures();
    DeviceWide();
    Destroyed();
    CALL(aclFinalize());
  });
}
