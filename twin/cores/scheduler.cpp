#include "scheduler.h"

#include "launch_work.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

namespace twin {

thread_local CoreState* currentCore = nullptr;

namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
// A device has about 32 KiB; frames of this machine, and those of the engine, are larger.
constexpr std::size_t kKernelStackBytes = 96 * 1024;

// Cores are large; launches hand them on instead of building them anew.
class CorePool {
 public:
  std::unique_ptr<CoreState> Take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        auto core = std::move(free_.back());
        free_.pop_back();
        return core;
      }
    }
    auto core = std::make_unique<CoreState>();
    core->core.state = core.get();
    core->ub.resize(kUbBytes);
    return core;
  }
  void Give(std::unique_ptr<CoreState> core) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(core));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<CoreState>> free_;
};

CorePool& Pool() {
  static CorePool pool;
  return pool;
}

bool FullFromEnvironment() {
  const char* level = std::getenv("TWIN_CHECK");
  return level == nullptr || std::strcmp(level, "fast") != 0;
}

// Bytes of the emulated L2; 0: nothing is asked of it.
uint64_t L2FromEnvironment() {
  const char* bytes = std::getenv("TWIN_COUNTS_L2");
  return bytes == nullptr ? 0 : std::strtoull(bytes, nullptr, 10);
}

const char* SeedFromEnvironment() {
  const char* seed = std::getenv("TWIN_SEED");
  return seed != nullptr && *seed != '\0' ? seed : nullptr;
}

}  // namespace

Scheduler::Scheduler(const Launch& launchIn)
    : launch(launchIn),
      full(FullFromEnvironment()),
      seeded(SeedFromEnvironment() != nullptr),
      vectorsPerBlock(std::max(launchIn.vectorsPerBlock, 1u)),
      seed_(seeded ? std::strtoull(SeedFromEnvironment(), nullptr, 10) * 2654435761u + 88172645463325252ull : 1),
      watchdog_(&Scheduler::Leave, this) {}

Scheduler::~Scheduler() {
  for (auto& core : cores_) {
    Pool().Give(std::move(core));
  }
}

std::size_t Scheduler::Pick(std::size_t count) {
  seed_ ^= seed_ << 13;
  seed_ ^= seed_ >> 7;
  seed_ ^= seed_ << 17;
  return static_cast<std::size_t>(seed_ % count);
}

bool Scheduler::Random(uint32_t oneIn) { return seeded && Pick(oneIn) == 0; }

void Scheduler::Enter() {
  CoreState& core = *currentCore;
  Fiber::Entered(core.scheduler->main_);
  core.scheduler->Body(core);
  Fiber::Switch(core.fiber, core.scheduler->main_, true);
}

void Scheduler::Body(CoreState& core) {
  try {
    if (abandoning) {
      throw Abandoned{};
    }
    launch.entry(launch.arguments);
    Finish(core);
  } catch (const Trapped& trap) {
    Fail(trap.code, trap.text);
  } catch (const Abandoned&) {
  } catch (const std::exception& fault) {
    Fail(kTrapped, std::string("operator ") + launch.name + " call " + core.call + ": " + fault.what());
  }
  core.finished = true;
}

// The first fault is the launch's; the other cores are only unwound.
void Scheduler::Fail(int code, const std::string& text) {
  if (code_ == 0) {
    code_ = code;
    error_ = text;
  }
  abandoning = true;
}

std::string Scheduler::Overdue(const CoreState& core, const std::string& place) const {
  char limit[64];
  std::snprintf(limit, sizeof(limit), "%g", watchdog_.Seconds());
  return std::string("operator ") + launch.name + " block " + std::to_string(core.block) + " call " + core.call +
         place + ": [TIMEOUT] the kernel did not end within " + limit + " s (TWIN_KERNEL_TIMEOUT)";
}

void Scheduler::TimeIsOver(CoreState& core) { throw Trapped{Overdue(core, ""), kTimedOut}; }

// In the watchdog's handler. A kernel that has made no call since the mark holds nothing of the engine's or the
// allocator's, so its stack can be left as it is.
void Scheduler::Leave(void* self, uint64_t programCounter) {
  auto& scheduler = *static_cast<Scheduler*>(self);
  if (currentCore == nullptr || currentCore->scheduler != &scheduler) {
    return;
  }
  scheduler.stuck_ = currentCore;
  scheduler.stuckAt_ = programCounter;
  Fiber::Abandon(scheduler.main_);
}

// From inside a kernel that no exception can pass.
void Scheduler::Drop(CoreState& core, const std::string& text) {
  Fail(kTrapped, text);
  core.finished = true;
  Fiber::Switch(core.fiber, main_, true);
  std::abort();
}

// Lets a core run until it waits or ends.
void Scheduler::Resume(CoreState& core) {
  currentCore = &core;
  Fiber::Switch(main_, core.fiber);
  currentCore = nullptr;
  if (stuck_ != nullptr) {
    CoreState& stuck = *stuck_;
    stuck_ = nullptr;
    stuck.finished = true;
    char place[320];
    Dl_info where{};
    const auto at = static_cast<uint64_t>(stuckAt_);
    if (dladdr(reinterpret_cast<void*>(at), &where) != 0 && where.dli_fname != nullptr) {
      std::snprintf(place, sizeof(place), ", then no call, at %s+0x%llx", where.dli_fname,
                    static_cast<unsigned long long>(at - reinterpret_cast<uint64_t>(where.dli_fbase)));
    } else {
      std::snprintf(place, sizeof(place), ", then no call, at 0x%llx", static_cast<unsigned long long>(at));
    }
    Fail(kTimedOut, Overdue(stuck, place));
  }
}

// Table E-34: what a kernel must not leave behind.
void Scheduler::Finish(CoreState& core) {
  core.call = "end of kernel";
  core.pipe = PIPE_S;
  for (const auto& buffer : core.buffers) {
    // At the end of a kernel a tensor that was not freed harms nothing.
    if (!launch.lenient && buffer.queue >= 0 && buffer.state != BufferState::Free) {
      core.core.Trap("E-34", "a queue tensor at UB 0x%x was not freed", buffer.start);
    }
  }
  for (int event = 0; event < kEvents; ++event) {
    for (int id = 0; id < kEventIds; ++id) {
      if (core.events[event].raised[id]) {
        core.core.Trap("E-12", "flag of event %d, id %d was set but never waited for", event, id);
      }
      if (core.events[event].reserved[id]) {
        core.core.Trap("E-10", "event %d, id %d was allocated but not released", event, id);
      }
    }
  }
  for (std::size_t i = 0; i < core.cubeObjects.size(); ++i) {
    if (core.cubeObjects[i].open || !core.cubeObjects[i].pending.empty()) {
      core.core.Trap("E-32", "Matmul object %zu was not ended: WaitIterateAll or End is missing", i);
    }
  }
  if (core.fiber.DeepestUse() > kKernelStackBytes) {
    core.core.Trap("E-40", "the kernel used %zu KiB of stack: its local arrays belong into the unified buffer",
                   core.fiber.DeepestUse() / 1024);
  }
  for (int flag = 0; flag < kCrossFlags; ++flag) {
    const auto& cross = core.crossFlags[flag];
    if (!cross.arrived.empty()) {
      core.core.Trap("E-14", "flag %d between cores was set but not waited for", flag);
    }
  }
  if (core.atomic != AtomicMode::None) {
    core.core.Trap("E-34", "the atomic mode is on: SetAtomicNone is missing");
  }
  core.core.CleanCache(nullptr, true);
}

void Scheduler::SwitchAway(CoreState& core) {
  Fiber::Switch(core.fiber, main_);
  currentCore = &core;
  if (abandoning && !core.finished) {
    throw Abandoned{};
  }
}

void Scheduler::Start(CoreState& core, uint32_t block) {
  core.scheduler = this;
  core.block = block;
  core.finished = false;
  core.atBarrier = false;
  core.barriers = 0;
  std::fill(std::begin(core.issued), std::end(core.issued), 0u);
  std::fill(std::begin(core.known), std::end(core.known), Clock{});
  std::fill(std::begin(core.events), std::end(core.events), Event{});
  core.pipe = PIPE_S;
  core.call = "kernel entry";
  core.taskType = -1;
  core.atomic = AtomicMode::None;
  core.livePipe = nullptr;
  core.buffers.clear();
  core.queues.clear();
  core.ubUsed = 0;
  core.cache.clear();
  core.cubeObjects.clear();
  std::fill(std::begin(core.crossFlags), std::end(core.crossFlags), CrossFlag{});
  core.cross.reset();
  core.waitsFor = -1;
  core.gm.Clear();
  core.keepsRequests = l2_ != nullptr;
  core.requests.Clear();
  core.lastExtent = 0;
  core.fiber.Prepare(&Scheduler::Enter, kStackBytes);
}

void Scheduler::MeetAll(CoreState& core) {
  core.atBarrier = true;
  ++core.barriers;
  while (core.atBarrier) {
    SwitchAway(core);
  }
}

// All blocks have arrived: what each core's scalar unit knows to be finished is now ordered before everything later.
void Scheduler::ReleaseBarrier() {
  CheckHistory();
  for (auto* core : running_) {
    core->atBarrier = false;
  }
  ++barriers_;
}

void Scheduler::CheckHistory() {
  if (!full) {
    return;
  }
  std::vector<GmAccess> all = std::move(carried_);
  carried_.clear();
  for (auto& core : cores_) {
    for (const auto& access : core->gm.accesses) {
      all.push_back(access);
    }
  }
  GmConflict conflict;
  if (FindConflict(all, conflict)) {
    const auto& a = conflict.first;
    const auto& b = conflict.second;
    char text[512];
    const bool cube = a.pipe == PIPE_M || b.pipe == PIPE_M;
    const char* tag = a.core != b.core       ? (a.pipe == PIPE_S || b.pipe == PIPE_S ? "E-18" : "E-20")
                      : cube                 ? "E-32"
                      : a.atomic != b.atomic ? "E-21"
                                             : "E-13";
    std::snprintf(text, sizeof(text),
                  "operator %s block %u call %s: [%s] %s of GM [0x%llx, 0x%llx) is not ordered with the %s of GM "
                  "[0x%llx, 0x%llx) by block %u call %s",
                  launch.name, b.core, b.call, tag, b.write ? "write" : "read",
                  static_cast<unsigned long long>(b.start), static_cast<unsigned long long>(b.end),
                  a.write ? "write" : "read", static_cast<unsigned long long>(a.start),
                  static_cast<unsigned long long>(a.end), a.core, a.call);
    Fail(kTrapped, text);
    return;
  }
  for (auto& core : cores_) {
    for (const auto& access : core->gm.accesses) {
      if (core->known[PIPE_S].at[access.pipe] < access.epoch && access.pipe != PIPE_S) {
        carried_.push_back(access);
      }
    }
    core->gm.Clear();
  }
}

bool Scheduler::Ready(const CoreState& core) const {
  const bool held = core.atBarrier || (core.waitsFor >= 0 && core.crossFlags[core.waitsFor].arrived.empty());
  return !core.finished && (!held || abandoning);
}

// Nobody can go on: all have met, or somebody waits for what will not come.
void Scheduler::ResolveWait() {
  char text[256];
  const auto flagged =
      std::find_if(running_.begin(), running_.end(), [](const CoreState* c) { return !c->finished && !c->atBarrier; });
  if (flagged != running_.end()) {
    std::snprintf(text, sizeof(text),
                  "operator %s block %u call CrossCoreWaitFlag: [E-14] flag %d is waited for, but not all cores of "
                  "its group set it",
                  launch.name, (*flagged)->block, (*flagged)->waitsFor);
    Fail(kTrapped, text);
    return;
  }
  const auto ended = std::find_if(running_.begin(), running_.end(), [](const CoreState* c) { return c->finished; });
  if (ended != running_.end()) {
    std::snprintf(text, sizeof(text),
                  "operator %s block %u call SyncAll: [E-33] the other blocks wait at SyncAll number %llu, which "
                  "this block never reached",
                  launch.name, (*ended)->block, static_cast<unsigned long long>(barriers_ + 1));
    Fail(kTrapped, text);
    return;
  }
  ReleaseBarrier();
}

void Scheduler::ServeFromL2() {
  std::vector<const L2Requests*> requests;
  for (const auto* core : running_) {
    requests.push_back(&core->requests);
  }
  if (!l2_->Serve(requests)) {
    Fail(kTrapped, std::string("operator ") + launch.name +
                       ": [TWIN_COUNTS_L2] the cores' requests of global memory have no order that keeps the flags "
                       "between cores, though the launch had one: the emulation is wrong");
  }
}

int Scheduler::Run(std::string& error) {
  const uint64_t l2 = L2FromEnvironment();
  if (l2 >= kL2Line) {
    l2_ = std::make_unique<L2Cache>(l2);
  }
  const uint32_t blocks = launch.blockDim * vectorsPerBlock;
  const uint32_t slots = std::min(blocks, launch.cores);
  std::vector<uint32_t> order(blocks);
  for (uint32_t i = 0; i < blocks; ++i) {
    order[i] = i;
  }
  for (uint32_t i = blocks; seeded && i > 1; --i) {
    std::swap(order[i - 1], order[Pick(i)]);
  }
  for (uint32_t i = 0; i < slots; ++i) {
    cores_.push_back(Pool().Take());
    cores_.back()->slot = i;
  }
  uint32_t started = 0;
  while (started < blocks && code_ == 0) {
    running_.clear();
    for (uint32_t i = 0; i < slots && started < blocks; ++i) {
      Start(*cores_[i], order[started++]);
      running_.push_back(cores_[i].get());
    }
    std::size_t at = 0;
    while (true) {
      std::vector<CoreState*> ready;
      for (auto* core : running_) {
        if (Ready(*core)) {
          ready.push_back(core);
        }
      }
      if (ready.empty()) {
        if (std::all_of(running_.begin(), running_.end(), [](const CoreState* c) { return c->finished; })) {
          break;
        }
        ResolveWait();
        continue;
      }
      Resume(*ready[seeded ? Pick(ready.size()) : at % ready.size()]);
    }
    if (code_ == 0) {
      CheckHistory();
    }
    carried_.clear();
    if (l2_ != nullptr && code_ == 0) {
      ServeFromL2();
    }
  }
  if (l2_ != nullptr) {
    l2_->Finish();
    launchWork.hbmRead = l2_->bytesRead;
    launchWork.hbmWritten = l2_->bytesWritten;
  }
  error = error_;
  return code_;
}

int Run(const Launch& launch, char* error, std::size_t capacity) {
  std::string text;
  int code;
  if (launch.blockDim == 0 || launch.blockDim > 65535) {
    text = "operator " + std::string(launch.name) + ": [E-35] blockDim " + std::to_string(launch.blockDim) +
           " is outside 1..65535";
    code = kTrapped;
  } else {
    Scheduler scheduler(launch);
    code = scheduler.Run(text);
  }
  if (capacity != 0) {
    std::snprintf(error, capacity, "%s", text.c_str());
  }
  return code;
}

}  // namespace twin
