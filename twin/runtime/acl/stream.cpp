#include "stream.h"

#include <cxxabi.h>
#include <pthread.h>

#include <exception>
#include <utility>

#include "device.h"
#include "device_failure.h"
#include "failure.h"
#include "log.h"
#include "process.h"
#include "stream_order.h"
#include "twin/block_signals.h"

namespace twin {
namespace {

// The hardware's task queues are bounded too; this bounds the memory that queued host copies hold.
constexpr std::size_t kQueueLimit = 4096;
constexpr auto kStopLimit = std::chrono::seconds(10);

// The stream whose worker this thread is.
thread_local const Stream* ownedBy = nullptr;

aclError RunGuarded(Task& task) {
  try {
    return task.Run();
  } catch (const std::exception& fault) {
    return Fail(ACL_ERROR_RT_AICORE_EXCEPTION, task.Name(), ": %s", fault.what());
  } catch (abi::__forced_unwind&) {
    throw;  // pthread_exit, by which Python ends threads that ask for its lock while it shuts down
  } catch (...) {
    return Fail(ACL_ERROR_RT_AICORE_EXCEPTION, task.Name(), ": unknown exception");
  }
}

}  // namespace

void Stream::SetStopOnFailure(bool stop) {
  const std::lock_guard lock(mutex_);
  stopOnFailure_ = stop;
}

bool Stream::OnOwnWorker() const { return ownedBy == this; }

aclError Stream::Submit(const char* function, std::unique_ptr<Task> task) {
  Failure destroyed;
  {
    std::unique_lock lock(mutex_);
    if (!OnOwnWorker()) {
      progressed_.wait(lock, [this] { return queue_.size() < kQueueLimit || stopping_; });
    }
    if (!stopping_) {
      if (!worker_.joinable()) {
        StartWorker();
      }
      queue_.push_back(std::move(task));
      ++submitted_;
      arrived_.notify_one();
      return ACL_SUCCESS;
    }
    destroyed = {ACL_ERROR_RT_INVALID_HANDLE, "stream " + std::to_string(id_) + " was destroyed"};
  }
  task->Skip(destroyed);
  task->Finish();
  task->Settle();
  return Fail(destroyed.code, function, ": %s", destroyed.text.c_str());
}

aclError Stream::Synchronize(const char* function, std::optional<Milliseconds> timeout) {
  if (OnOwnWorker()) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, function, ": stream %d cannot wait for itself", id_);
  }
  const auto snapshot = Strict() ? StreamOrder::Get().Reached(*this) : nullptr;
  std::unique_lock lock(mutex_);
  const uint64_t target = submitted_;
  const auto reached = [this, target] { return completed_ >= target; };
  if (!timeout) {
    progressed_.wait(lock, reached);
  } else if (!progressed_.wait_for(lock, *timeout, reached)) {
    const auto left = target - completed_;
    lock.unlock();
    return Fail(ACL_ERROR_RT_REPORT_TIMEOUT, function, "(stream=%d, timeout=%lld ms): %llu tasks are left", id_,
                static_cast<long long>(timeout->count()), static_cast<unsigned long long>(left));
  }
  if (failure_.code == ACL_SUCCESS) {
    lock.unlock();
    if (const aclError error = RefuseFailedDevice(device_); error != ACL_SUCCESS) {
      return error;
    }
    if (snapshot != nullptr) {
      StreamOrder::Get().HostWaited(snapshot);
      return StreamOrder::Get().PendingFault(function);
    }
    return ACL_SUCCESS;
  }
  const Failure found = failure_;
  if (!stopOnFailure_) {
    failure_ = {};
  }
  lock.unlock();
  MarkFailureSeen(device_);
  return Report(found.code, found.text);
}

bool Stream::Idle() {
  const std::lock_guard lock(mutex_);
  return completed_ == submitted_;
}

void Stream::AwaitIdle() {
  std::unique_lock lock(mutex_);
  progressed_.wait(lock, [this, target = submitted_] { return completed_ >= target; });
}

void Stream::BeginAbort() {
  const std::lock_guard lock(mutex_);
  aborted_ = submitted_;
}

bool Stream::EndAbort(Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto reached = [this] { return completed_ >= aborted_; };
  if (timeout.count() == 0) {
    progressed_.wait(lock, reached);
  } else if (!progressed_.wait_for(lock, timeout, reached)) {
    return false;
  }
  failure_ = {};
  return true;
}

void Stream::RequestStop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  arrived_.notify_all();
  progressed_.notify_all();
}

void Stream::AwaitStop() {
  std::unique_lock lock(mutex_);
  if (!worker_.joinable()) {
    return;
  }
  if (progressed_.wait_for(lock, kStopLimit, [this] { return ended_; })) {
    lock.unlock();
    worker_.join();
    return;
  }
  worker_.detach();
  Log(ACL_WARNING, "stream %d of device %d: a task is still running and was left alone", id_, device_);
}

void Stream::StartWorker() {
  MarkRuntimeInUse();
  const BlockSignals blocked;
  ended_ = false;
  worker_ = std::thread([self = shared_from_this()] { self->Work(); });
  const std::string name = "npu" + std::to_string(device_) + "-s" + std::to_string(id_);
  pthread_setname_np(worker_.native_handle(), name.substr(0, 15).c_str());
}

void Stream::Work() {
  BindThread(device_);
  ownedBy = this;
  // Also when a task ended the thread.
  const std::shared_ptr<Stream> atEnd(this, [](Stream* stream) {
    const std::lock_guard lock(stream->mutex_);
    stream->ended_ = true;
    stream->progressed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) {
      break;
    }
    std::unique_ptr<Task> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Execute(*task);
    task->Finish();
    lock.lock();
    ++completed_;
    task->Settle();
    progressed_.notify_all();
    lock.unlock();
    task.reset();
    lock.lock();
  }
}

void Stream::Execute(Task& task) {
  Failure earlier;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      earlier = {ACL_ERROR_RT_STREAM_CONTEXT,
                 "stream " + std::to_string(id_) + " was destroyed before '" + task.Name() + "' ran"};
    } else if (completed_ < aborted_) {
      earlier = {ACL_ERROR_RT_STREAM_CONTEXT,
                 "'" + std::string(task.Name()) + "' was aborted on device " + std::to_string(device_)};
    } else if (stopOnFailure_) {
      earlier = failure_.code != ACL_SUCCESS ? failure_ : FailureOfDevice(device_).value_or(Failure{});
    }
  }
  if (earlier.code != ACL_SUCCESS) {
    task.Skip(earlier);
    return;
  }
  ClearFailure();
  const aclError code = RunGuarded(task);
  if (code == ACL_SUCCESS) {
    return;
  }
  Failure failure = FailureOf(task, code);
  Log(ACL_ERROR, "%s", failure.text.c_str());
  const std::lock_guard lock(mutex_);
  if (stopOnFailure_) {
    FailDevice(device_, failure, /*queueEnded=*/false);
  }
  if (failure_.code == ACL_SUCCESS) {
    failure_ = std::move(failure);
  }
}

Failure Stream::FailureOf(const Task& task, aclError code) const {
  const char* reason = RecentFailure();
  return {code, "[twin] stream " + std::to_string(id_) + " of device " + std::to_string(device_) + ": task '" +
                    task.Name() + "' failed with error " + std::to_string(code) + ": " +
                    (*reason == '\0' ? "no reason was given" : reason)};
}

}  // namespace twin
