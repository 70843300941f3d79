// A stream: tasks that run one after the other on a worker thread of their own.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "acl/acl.h"

namespace twin {

struct Failure {
  aclError code = ACL_SUCCESS;
  std::string text;
};

// Run or Skip is called once, then Finish, then Settle.
class Task {
 public:
  explicit Task(const char* name) : name_(name) {}
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const char* Name() const { return name_.c_str(); }
  virtual aclError Run() = 0;
  // The stream failed or was destroyed before the task's turn came.
  virtual void Skip(const Failure&) {}
  // Releases what the caller gave, before the stream counts the task as done.
  virtual void Finish() {}
  // Together with that count, under the stream's lock: who sees one sees the other.
  virtual void Settle() {}

 private:
  std::string name_;
};

using Milliseconds = std::chrono::milliseconds;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(int32_t id, int32_t device) : id_(id), device_(device) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int32_t Id() const { return id_; }
  int32_t Device() const { return device_; }

  void SetStopOnFailure(bool stop);
  aclError Submit(const char* function, std::unique_ptr<Task> task);
  // Waits for all work submitted so far; without a timeout, for ever.
  aclError Synchronize(const char* function, std::optional<Milliseconds> timeout);
  bool Idle();
  // Waits for all work submitted so far, whatever comes of it.
  void AwaitIdle();
  bool OnOwnWorker() const;

  // Skips what is queued now, once for each of BeginAbort; the stream goes on with what comes after it.
  void BeginAbort();
  // After BeginAbort: waits for the running task (no limit when `timeout` is 0) and forgets the failure.
  bool EndAbort(Milliseconds timeout);

  // Drops what is queued and lets the running task end.
  void RequestStop();
  // After RequestStop. A worker that does not end in time is left alone: it holds a reference to its stream.
  void AwaitStop();

 private:
  void StartWorker();
  void Work();
  void Execute(Task& task);
  Failure FailureOf(const Task& task, aclError code) const;

  const int32_t id_;
  const int32_t device_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable progressed_;
  std::deque<std::unique_ptr<Task>> queue_;
  std::thread worker_;
  uint64_t submitted_ = 0;
  uint64_t completed_ = 0;
  uint64_t aborted_ = 0;  // tasks up to this one are skipped
  bool stopOnFailure_ = false;
  bool stopping_ = false;
  bool ended_ = true;
  Failure failure_;
};

}  // namespace twin
