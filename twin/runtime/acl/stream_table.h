// All live streams: what a handle stands for, the default stream of each device, and how a device is emptied.
#pragma once
#include <memory>
#include <vector>

#include "stream.h"

namespace twin {

aclrtStream AddStream(int32_t device);
std::shared_ptr<Stream> RemoveStream(aclrtStream handle);

// The stream behind a handle (null: the default stream of the thread's device), or a failure for `function`.
// A thread that has a current device may use that device's streams only.
aclError FindStream(const char* function, aclrtStream handle, std::shared_ptr<Stream>* stream);

std::vector<std::shared_ptr<Stream>> StreamsOf(int32_t device);

// Destroys the device's streams, the default one too; it comes back at next use.
void StopDeviceStreams(int32_t device);
void StopAllStreams();

// Skips what the device's streams have queued and makes them sound again; false when a task is still running at the end
// of the time (0: no limit).
bool AbortDeviceStreams(int32_t device, Milliseconds timeout);

}  // namespace twin
