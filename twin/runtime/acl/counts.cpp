#include "counts.h"

#include <algorithm>
#include <cstring>

#include "counts_file.h"
#include "device.h"
#include "process.h"
#include "python_place.h"
#include "stream_order.h"
#include "stream_table.h"
#include "twin/counts.h"

namespace twin {
namespace {

std::size_t Index(Wait kind) { return static_cast<std::size_t>(kind); }
std::size_t Index(Launched kind) { return static_cast<std::size_t>(kind); }

}  // namespace

bool IsOwnWait() { return WaitsForItself() || IsForkedChild(); }

// Never destroyed: see DeviceMemory.
Counts& Counts::Get() {
  static Counts& counts = *new Counts;
  return counts;
}

template <typename Change>
void Counts::Add(Change change) {
  const std::lock_guard lock(mutex_);
  change(total_);
  if (open_) {
    change(step_);
  }
}

void Counts::AddLaunch(Launched kind, const char* name) {
  Add([&](Tally& tally) { ++tally.launches[Index(kind)][name]; });
}

void Counts::AddWait(Wait kind, const char* function) {
  const auto place = std::make_pair(std::string(function), PythonPlace());
  Add([&](Tally& tally) {
    ++tally.waits[Index(kind)][function];
    ++tally.places[place];
  });
}

void Counts::AddCopy(const char* function, const CopyKind& kind, std::size_t bytes) {
  Add([&](Tally& tally) {
    auto& copied = tally.copies[kind];
    ++copied.count;
    copied.bytes += bytes;
  });
  if (kind.blocking) {
    CountWait(Wait::kCopy, function);
  } else if (kind.way == ACL_MEMCPY_DEVICE_TO_HOST) {
    const auto place = std::make_pair(std::string(function), PythonPlace());
    Add([&](Tally& tally) { ++tally.places[place]; });
  }
}

void Counts::AddKernel(const char* name, const KernelWork& work) {
  Add([&](Tally& tally) {
    auto& kernel = tally.kernels[name];
    kernel.launches += work.launches;
    kernel.bytesRead += work.bytesRead;
    kernel.bytesWritten += work.bytesWritten;
    kernel.products += work.products;
    kernel.hbmRead += work.hbmRead;
    kernel.hbmWritten += work.hbmWritten;
  });
}

void Counts::SetMemory(int32_t device, std::size_t used) {
  const auto at = static_cast<std::size_t>(device);
  const std::lock_guard lock(mutex_);
  used_.resize(std::max(used_.size(), at + 1));
  used_[at] = used;
  for (Tally* tally : {&total_, &step_}) {
    tally->peaks.resize(used_.size());
    tally->peaks[at] = std::max(tally->peaks[at], used);
  }
}

void Counts::SetDrain(void (*drain)()) {
  const std::lock_guard lock(mutex_);
  drain_ = drain;
}

// The tasks of a step may run after the program marked its end: the step is over when they did.
void Counts::Settle() {
  void (*drain)() = nullptr;
  {
    const std::lock_guard lock(mutex_);
    drain = drain_;
  }
  SetWaitsForItself(true);
  if (drain != nullptr) {
    drain();
  }
  for (int32_t device = 0; device < DeviceCount(); ++device) {
    for (const auto& stream : StreamsOf(device)) {
      stream->AwaitIdle();
    }
  }
  SetWaitsForItself(false);
}

void Counts::BeginStep(const char* name) {
  Settle();
  const std::lock_guard lock(mutex_);
  WriteStep();
  step_ = Tally{};
  step_.peaks = used_;
  stepName_ = name == nullptr ? "" : name;
  open_ = true;
}

void Counts::EndStep() {
  Settle();
  const std::lock_guard lock(mutex_);
  WriteStep();
}

void Counts::WriteStep() {
  if (open_) {
    CountsFile::Get().Step(steps_++, stepName_, step_, used_);
    open_ = false;
  }
}

void Counts::Finish() {
  const std::lock_guard lock(mutex_);
  if (!finished_) {
    finished_ = true;
    CountsFile::Get().Total(steps_, total_, used_);
  }
}

}  // namespace twin

using namespace twin;

extern "C" {

__attribute__((visibility("default"))) bool twinCounting() { return Counting() && !IsForkedChild(); }

__attribute__((visibility("default"))) void twinCountAten(const char* name) {
  Counts::Get().AddLaunch(Launched::kAten, name);
}

__attribute__((visibility("default"))) void twinCountValue(const char* name) { CountWait(Wait::kValue, name); }

__attribute__((visibility("default"))) void twinCountKernel(const char* name, uint64_t bytesRead, uint64_t bytesWritten,
                                                            uint64_t products) {
  if (twinCounting()) {
    Counts::Get().AddKernel(name, {1, bytesRead, bytesWritten, products, 0, 0});
  }
}

__attribute__((visibility("default"))) void twinCountHbm(const char* name, uint64_t bytesRead, uint64_t bytesWritten) {
  if (twinCounting()) {
    Counts::Get().AddKernel(name, {0, 0, 0, 0, bytesRead, bytesWritten});
  }
}

__attribute__((visibility("default"))) void twinCountsDrain(void (*drain)()) { Counts::Get().SetDrain(drain); }

__attribute__((visibility("default"))) void twinCountsBeginStep(const char* name) {
  if (twinCounting()) {
    Counts::Get().BeginStep(name);
  }
}

__attribute__((visibility("default"))) void twinCountsEndStep() {
  if (twinCounting()) {
    Counts::Get().EndStep();
  }
}
}
