// aclrt*Stream*: the stream functions of the runtime interface, and twinStreamSubmit for the twin's own libraries.
#include <string_view>
#include <utility>

#include "counts.h"
#include "device.h"
#include "device_failure.h"
#include "failure.h"
#include "process.h"
#include "settings.h"
#include "stream_order.h"
#include "stream_table.h"
#include "twin/access.h"
#include "twin/stream.h"

using namespace twin;

namespace {

constexpr uint32_t kKnownFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC;
constexpr uint32_t kLowestPriority = 7;

aclError Create(const char* function, aclrtStream* stream, uint32_t priority, uint32_t flag) {
  if (stream == nullptr || priority > kLowestPriority || (flag & ~kKnownFlags) != 0) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
                "(stream=%p, priority=%u, flag=0x%x): null, priority beyond %u or flags beyond 0x%x",
                static_cast<void*>(stream), priority, flag, kLowestPriority, kKnownFlags);
  }
  int32_t device = 0;
  if (const aclError error = RequireDevice(function, &device); error != ACL_SUCCESS) {
    return error;
  }
  *stream = AddStream(device);
  return ACL_SUCCESS;
}

aclError Destroy(const char* function, aclrtStream handle, bool force) {
  if (IsForkedChild()) {
    return ACL_SUCCESS;
  }
  if (handle == nullptr) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, function, "(stream=null): the default stream cannot be destroyed");
  }
  const auto stream = RemoveStream(handle);
  if (stream == nullptr) {
    return Fail(ACL_ERROR_RT_INVALID_HANDLE, function, "(stream=%p): not a stream, or already destroyed", handle);
  }
  // Destruction waits for the work but does not report its failure: synchronise to learn that.
  if (!force && stream->Synchronize(function, std::nullopt) != ACL_SUCCESS) {
    ClearFailure();
  }
  stream->RequestStop();
  if (!stream->OnOwnWorker()) {
    stream->AwaitStop();
  }
  return ACL_SUCCESS;
}

class ForeignTask final : public Task {
 public:
  ForeignTask(const char* name, int32_t (*run)(void*), void (*drop)(void*), void* argument)
      : Task(name), run_(run), drop_(drop), argument_(argument) {}
  ~ForeignTask() override { Drop(); }
  aclError Run() override { return GetSettings().computes ? run_(argument_) : ACL_SUCCESS; }
  void Finish() override { Drop(); }

 private:
  void Drop() {
    if (drop_ != nullptr) {
      std::exchange(drop_, nullptr)(argument_);
    }
  }

  int32_t (*run_)(void*);
  void (*drop_)(void*);
  void* argument_;
};

// Who submits says so by the name: aclnn functions and collectives carry their own, an operator its type.
Launched KindOf(std::string_view name) {
  if (name.substr(0, 5) == "aclnn") {
    return Launched::kAclnn;
  }
  return name.substr(0, 4) == "Hccl" ? Launched::kHccl : Launched::kCustom;
}

const char* NameOf(const char* name) { return name == nullptr ? "task" : name; }

aclError SubmitForeign(const char* function, aclrtStream stream, std::unique_ptr<ForeignTask> task,
                       const twinAccess* accesses, std::size_t count) {
  std::shared_ptr<Stream> found;
  if (const aclError error = FindStream(function, stream, &found); error != ACL_SUCCESS) {
    return error;
  }
  if (const aclError error = RefuseFailedDevice(found->Device()); error != ACL_SUCCESS) {
    return error;
  }
  if (Strict()) {
    const aclError error = StreamOrder::Get().OnStream(task->Name(), *found, task->Name(), accesses, count);
    if (error != ACL_SUCCESS) {
      return error;
    }
  }
  if (Counting()) {
    Counts::Get().AddLaunch(KindOf(task->Name()), task->Name());
  }
  return found->Submit(function, std::move(task));
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream) { return Create(__func__, stream, 0, 0); }

// Priorities are accepted and make no difference: each stream has a thread of its own.
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  return Create(__func__, stream, priority, flag);
}

aclError aclrtDestroyStream(aclrtStream stream) { return Destroy(__func__, stream, false); }

aclError aclrtDestroyStreamForce(aclrtStream stream) { return Destroy(__func__, stream, true); }

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  if (stream == nullptr || (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE)) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "(stream=%p, mode=%llu): a created stream and mode 0 or 1",
                stream, static_cast<unsigned long long>(mode));
  }
  std::shared_ptr<Stream> found;
  if (const aclError error = FindStream(__func__, stream, &found); error != ACL_SUCCESS) {
    return error;
  }
  found->SetStopOnFailure(mode == ACL_STOP_ON_FAILURE);
  return ACL_SUCCESS;
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  std::shared_ptr<Stream> found;
  if (const aclError error = FindStream(__func__, stream, &found); error != ACL_SUCCESS) {
    return error;
  }
  if (flag != 0) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, "(flag=%u): overflow detection is not emulated", flag);
  }
  return ACL_SUCCESS;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  std::shared_ptr<Stream> found;
  if (const aclError error = FindStream(__func__, stream, &found); error != ACL_SUCCESS) {
    return error;
  }
  if (flag == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(flag=null)");
  }
  *flag = 0;
  return ACL_SUCCESS;
}

extern "C" {

// Declared in no header of the wheel.
__attribute__((visibility("default"))) aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  std::shared_ptr<Stream> found;
  if (const aclError error = FindStream(__func__, stream, &found); error != ACL_SUCCESS) {
    return error;
  }
  if (streamId == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(streamId=null)");
  }
  *streamId = found->Id();
  return ACL_SUCCESS;
}

__attribute__((visibility("default"))) aclError twinStreamSubmit(aclrtStream stream, const char* name,
                                                                 int32_t (*task)(void*), void (*drop)(void*),
                                                                 void* argument) {
  auto owned = std::make_unique<ForeignTask>(NameOf(name), task, drop, argument);
  return SubmitForeign(__func__, stream, std::move(owned), nullptr, 0);
}

__attribute__((visibility("default"))) aclError twinStreamSubmitChecked(aclrtStream stream, const char* name,
                                                                        int32_t (*task)(void*), void (*drop)(void*),
                                                                        void* argument, const twinAccess* accesses,
                                                                        std::size_t count) {
  auto owned = std::make_unique<ForeignTask>(NameOf(name), task, drop, argument);
  return SubmitForeign(__func__, stream, std::move(owned), accesses, count);
}

__attribute__((visibility("default"))) aclError twinStreamAccess(aclrtStream stream, const char* name,
                                                                 const twinAccess* accesses, std::size_t count) {
  std::shared_ptr<Stream> found;
  if (const aclError error = FindStream(__func__, stream, &found); error != ACL_SUCCESS || !Strict()) {
    return error;
  }
  return StreamOrder::Get().OnStream(name, *found, name, accesses, count);
}

__attribute__((visibility("default"))) aclError twinStreamGaveValue(aclrtStream stream) {
  std::shared_ptr<Stream> found;
  if (const aclError error = FindStream(__func__, stream, &found); error != ACL_SUCCESS || !Strict()) {
    return error;
  }
  StreamOrder::Get().HostWaited(StreamOrder::Get().Reached(*found));
  return ACL_SUCCESS;
}
}
