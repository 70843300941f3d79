// What a device failed of first. As on hardware, a failed device stays failed: every later use returns that failure
// until the device is reset, so that nothing is computed on memory that the failed work left unwritten.
#pragma once
#include <optional>

#include "stream.h"

namespace twin {

// torch_npu's task queue (TASK_QUEUE_ENABLE 1 and 2) has one consumer thread for each device. An error that it is given
// ends the queue for good: torch_npu raises once, and from then on drops what it is given without a word.
bool OnTaskQueue();

// Keeps the first failure. `queueEnded`: torch_npu's task queue ended with it.
void FailDevice(int32_t device, Failure failure, bool queueEnded);

std::optional<Failure> FailureOfDevice(int32_t device);
bool TaskQueueEnded(int32_t device);

// The failure of the device, reported on behalf of whoever uses it; 0 when it is sound. The consumer of the task queue
// is let through: its work is skipped by the stream, where an error would end the queue.
aclError RefuseFailedDevice(int32_t device);

// The program was given the failure.
void MarkFailureSeen(int32_t device);

// The device was reset.
void ForgiveDevice(int32_t device);

}  // namespace twin
