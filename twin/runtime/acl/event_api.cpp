// aclrt*Event*: the event functions of the runtime interface.
#include <utility>

#include "counts.h"
#include "device.h"
#include "device_failure.h"
#include "event.h"
#include "failure.h"
#include "process.h"
#include "stream_table.h"
#include "timeouts.h"

using namespace twin;

namespace {

constexpr uint32_t kKnownFlags =
    ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_EXTERNAL;

class RecordTask final : public Task {
 public:
  RecordTask(std::shared_ptr<Event> event, const Stream& stream)
      : Task("aclrtRecordEvent"),
        event_(std::move(event)),
        record_(event_->BeginRecord(Strict() ? StreamOrder::Get().Reached(stream) : nullptr)) {}
  aclError Run() override { return ACL_SUCCESS; }
  // Whoever waits for work that did not happen must learn it, and must not wait for ever.
  void Skip(const Failure& failure) override { failure_ = failure; }
  void Settle() override { event_->EndRecord(record_, failure_); }

 private:
  std::shared_ptr<Event> event_;
  uint64_t record_;
  Failure failure_;
};

class WaitTask final : public Task {
 public:
  WaitTask(std::shared_ptr<Event> event, const Stream& stream)
      : Task("aclrtStreamWaitEvent"), event_(std::move(event)), record_(event_->LatestRecord()) {
    event_->BeginWait();
    if (Strict()) {
      StreamOrder::Get().StreamWaited(stream, event_->LatestReached());
    }
  }
  aclError Run() override { return event_->Wait(Name(), record_, OpWaitTimeout()); }
  void Settle() override { event_->EndWait(); }

 private:
  std::shared_ptr<Event> event_;
  uint64_t record_;
};

class ResetTask final : public Task {
 public:
  ResetTask(std::shared_ptr<Event> event, const Stream&)
      : Task("aclrtResetEvent"), event_(std::move(event)), record_(event_->LatestRecord()) {}
  aclError Run() override {
    event_->Reset(record_);
    return ACL_SUCCESS;
  }

 private:
  std::shared_ptr<Event> event_;
  uint64_t record_;
};

template <typename EventTask>
aclError SubmitEventTask(const char* function, aclrtEvent handle, aclrtStream streamHandle) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  if (const aclError error = FindEvent(function, handle, &event); error != ACL_SUCCESS) {
    return error;
  }
  if (const aclError error = FindStream(function, streamHandle, &stream); error != ACL_SUCCESS) {
    return error;
  }
  return stream->Submit(function, std::make_unique<EventTask>(std::move(event), *stream));
}

aclError Create(const char* function, aclrtEvent* event, uint32_t flag, bool timed) {
  if (event == nullptr || (flag & ~kKnownFlags) != 0) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, function, "(event=%p, flag=0x%x): null, or flags beyond 0x%x",
                static_cast<void*>(event), flag, kKnownFlags);
  }
  int32_t device = 0;
  if (const aclError error = RequireDevice(function, &device); error != ACL_SUCCESS) {
    return error;
  }
  *event = AddEvent(timed);
  return ACL_SUCCESS;
}

}  // namespace

aclError aclrtCreateEvent(aclrtEvent* event) { return Create(__func__, event, 0, true); }

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return Create(__func__, event, flag, (flag & ACL_EVENT_TIME_LINE) != 0);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return Create(__func__, event, flag, (flag & ACL_EVENT_TIME_LINE) != 0);
}

// Work that refers to the event keeps it alive until it ran.
aclError aclrtDestroyEvent(aclrtEvent event) {
  if (IsForkedChild()) {
    return ACL_SUCCESS;
  }
  if (RemoveEvent(event) == nullptr) {
    return Fail(ACL_ERROR_RT_INVALID_HANDLE, __func__, "(event=%p): not an event, or already destroyed", event);
  }
  return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return SubmitEventTask<RecordTask>(__func__, event, stream);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return SubmitEventTask<ResetTask>(__func__, event, stream);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return SubmitEventTask<WaitTask>(__func__, event, stream);
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  std::shared_ptr<Event> found;
  if (const aclError error = FindEvent(__func__, event, &found); error != ACL_SUCCESS) {
    return error;
  }
  if (const aclError error = RefuseFailedDevice(CurrentDevice()); error != ACL_SUCCESS) {
    return error;
  }
  CountWait(Wait::kEvent, __func__);
  const auto reached = found->LatestReached();
  const aclError error = found->Wait(__func__, found->LatestRecord(), std::nullopt);
  if (Strict() && error == ACL_SUCCESS) {
    StreamOrder::Get().HostWaited(reached);
    return StreamOrder::Get().PendingFault(__func__);
  }
  return error;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  std::shared_ptr<Event> found;
  if (const aclError error = FindEvent(__func__, event, &found); error != ACL_SUCCESS) {
    return error;
  }
  if (status == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(status=null)");
  }
  const auto reached = found->LatestReached();
  const bool recorded = found->Recorded();
  *status = recorded ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  if (Strict() && recorded) {
    StreamOrder::Get().HostWaited(reached);
  }
  return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  std::shared_ptr<Event> found;
  if (const aclError error = FindEvent(__func__, event, &found); error != ACL_SUCCESS) {
    return error;
  }
  if (status == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(status=null)");
  }
  *status = found->WaitsDone() ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  std::shared_ptr<Event> start;
  std::shared_ptr<Event> end;
  if (const aclError error = FindEvent(__func__, startEvent, &start); error != ACL_SUCCESS) {
    return error;
  }
  if (const aclError error = FindEvent(__func__, endEvent, &end); error != ACL_SUCCESS) {
    return error;
  }
  if (ms == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(ms=null)");
  }
  if (!start->Timed() || !end->Timed()) {
    return Fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, __func__,
                ": an event was created without the flag ACL_EVENT_TIME_LINE");
  }
  const auto from = start->ReachedAt();
  const auto to = end->ReachedAt();
  if (!from || !to) {
    return Fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, __func__, ": an event was not recorded, or is not reached yet");
  }
  *ms = std::chrono::duration<float, std::milli>(*to - *from).count();
  return ACL_SUCCESS;
}
