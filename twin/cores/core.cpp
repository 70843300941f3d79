// The core's control side: errors, clocks, events, queues and the barrier between cores.
#include "ascendc/core.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "ascendc/tiling.h"
#include "core_state.h"
#include "scheduler.h"

namespace twin {

namespace {

constexpr uint32_t kSelectScratchBytes = 8192;

void Join(Clock& into, const Clock& from) {
  for (int i = 0; i < kPipes; ++i) {
    into.at[i] = std::max(into.at[i], from.at[i]);
  }
}

Clock Snapshot(const CoreState& s, pipe_t pipe) {
  Clock clock = s.known[Index(pipe)];
  clock.at[Index(pipe)] = s.issued[Index(pipe)];
  return clock;
}

void CheckEventId(Core& core, int event, int id) {
  if (id < 0 || id >= kEventIds) {
    core.Trap("E-10", "event %d has no id %d: ids are 0..7", event, id);
  }
}

}  // namespace

Core& Core::Current() { return currentCore->core; }

void Core::Trap(const char* tag, const char* format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  throw Trapped{std::string("operator ") + state->scheduler->launch.name + " block " + std::to_string(state->block) +
                " call " + state->call + ": [" + tag + "] " + message};
}

int64_t Core::BlockIdx() const { return state->block; }
int64_t Core::BlockNum() const { return state->scheduler->launch.blockDim; }
int64_t Core::VectorsPerBlock() const { return state->scheduler->vectorsPerBlock; }
uint64_t Core::TilingKey() const { return state->scheduler->launch.tilingKey; }
bool Core::FullChecks() const { return state->scheduler->full; }
bool Core::Lenient() const { return state->scheduler->launch.lenient; }
void Core::InferTaskType() {
  if (state->taskType == -1) {
    SetTaskType(KERNEL_TYPE_MIX_AIC_1_2);
  }
}
void Core::SetTaskType(int type) {
  state->taskType = type;
  if ((type == KERNEL_TYPE_MIX_AIC_1_2 ? 2u : 1u) != state->scheduler->vectorsPerBlock) {
    Trap("E-33", "the launch has %u vector cores per block, the kernel type %d other",
         state->scheduler->vectorsPerBlock, type);
  }
}
void* Core::LivePipe() const { return state->livePipe; }

uint8_t* Core::UserWorkspace(void* workspace) {
  state->call = "GetUserWorkspace";
  const auto& launch = state->scheduler->launch;
  if (launch.workspaceBytes < kSystemWorkspaceBytes) {
    Trap("E-31", "the workspace of %llu bytes lacks the system part: tiling must add GetLibApiWorkSpaceSize()",
         static_cast<unsigned long long>(launch.workspaceBytes));
  }
  return static_cast<uint8_t*>(workspace) + kSystemWorkspaceBytes;
}

uint8_t* Core::SystemWorkspace() const { return static_cast<uint8_t*>(state->scheduler->launch.workspace); }

const void* Core::TilingData(const void* tiling, std::size_t bytes) {
  state->call = "GET_TILING_DATA";
  const auto& launch = state->scheduler->launch;
  if (bytes != launch.tilingBytes) {
    Trap("E-31", "the kernel reads tiling data of %zu bytes, the host wrote %zu", bytes, launch.tilingBytes);
  }
  return tiling;
}

void Core::Issue(pipe_t pipe, const char* call) {
  state->pipe = pipe;
  state->call = call;
  state->scheduler->CheckTime(*state);
  const int p = Index(pipe);
  ++state->issued[p];
  if (state->scheduler->launch.lenient) {
    KnowAsCompiled(*state, pipe);
  }
  if (pipe == PIPE_S) {
    return;
  }
  // The scalar unit issues in program order: what it waited for is over before this instruction starts. Its own
  // stores to the unified buffer are not, they need a flag.
  const uint32_t own = state->known[p].at[PIPE_S];
  Join(state->known[p], state->known[PIPE_S]);
  state->known[p].at[PIPE_S] = own;
}

void Core::SetFlag(int event, pipe_t from, pipe_t, int32_t id) {
  state->call = "SetFlag";
  state->scheduler->CheckTime(*state);
  CheckEventId(*this, event, id);
  auto& e = state->events[event];
  if (e.raised[id]) {
    Trap("E-12", "event %d, id %d is set twice without a wait", event, id);
  }
  e.raised[id] = true;
  e.clock[id] = Snapshot(*state, from);
}

void Core::WaitFlag(int event, pipe_t, pipe_t to, int32_t id) {
  state->call = "WaitFlag";
  CheckEventId(*this, event, id);
  auto& e = state->events[event];
  if (!e.raised[id]) {
    Trap("E-12", "event %d, id %d is waited for but never set", event, id);
  }
  e.raised[id] = false;
  Join(state->known[Index(to)], e.clock[id]);
}

int Core::FetchEvent(int event) {
  state->call = "FetchEventID";
  const auto& e = state->events[event];
  const int first = state->scheduler->seeded ? static_cast<int>(state->scheduler->Pick(kEventIds)) : 0;
  for (int i = 0; i < kEventIds; ++i) {
    const int id = (first + i) % kEventIds;
    if (!e.raised[id] && !e.reserved[id]) {
      return id;
    }
  }
  Trap("E-10", "all 8 ids of event %d are in use", event);
}

int Core::AllocEvent(int event) {
  const int id = FetchEvent(event);
  state->events[event].reserved[id] = true;
  return id;
}

void Core::ReleaseEvent(int event, int id) {
  state->call = "ReleaseEventID";
  CheckEventId(*this, event, id);
  if (!state->events[event].reserved[id]) {
    Trap("E-10", "event %d, id %d is released but not allocated", event, id);
  }
  state->events[event].reserved[id] = false;
}

void Core::Barrier(pipe_t pipe) {
  state->call = "PipeBarrier";
  state->scheduler->CheckTime(*state);
  if (pipe != PIPE_ALL) {
    const int p = Index(pipe);
    state->known[p].at[p] = state->issued[p];
    return;
  }
  for (auto& known : state->known) {
    std::copy(std::begin(state->issued), std::end(state->issued), std::begin(known.at));
  }
}

void Core::KnowFinished(pipe_t knower, pipe_t finished) {
  state->known[Index(knower)].at[Index(finished)] = state->issued[Index(finished)];
}

void Core::SyncAll(bool vectorOnly) {
  state->call = "SyncAll";
  if (!vectorOnly) {
    Trap("E-33", "SyncAll<false> in a kernel without a cube side hangs");
  }
  CheckResident();
  state->scheduler->MeetAll(*state);
}

void Core::CheckResident() {
  const auto& launch = state->scheduler->launch;
  if (state->taskType != KERNEL_TYPE_MIX_AIV_1_0 && state->taskType != KERNEL_TYPE_MIX_AIC_1_1 &&
      state->taskType != KERNEL_TYPE_MIX_AIC_1_2) {
    Trap("E-33", "waiting for other cores needs a MIX kernel type: KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0)");
  }
  if (launch.blockDim * state->scheduler->vectorsPerBlock > launch.cores) {
    Trap("E-22", "%u blocks wait for each other on %u cores", launch.blockDim, launch.cores);
  }
  if (launch.scheduleMode != 1) {
    Trap("E-22", "blocks wait for each other, but tiling did not call SetScheduleMode(1)");
  }
}

void Core::OpenPipe(void* pipe) {
  state->call = "TPipe";
  if (state->livePipe != nullptr) {
    Trap("E-38", "a second TPipe while one is alive");
  }
  if (!state->buffers.empty()) {
    ResetPipe();
  }
  state->livePipe = pipe;
  state->mask = VectorMask{};
  SetAtomic(AtomicMode::None, -1);
}

VectorMask& Core::Mask() { return state->mask; }

void Core::ClosePipe() { state->livePipe = nullptr; }

void Core::DestroyPipe() {
  Barrier(PIPE_ALL);
  ResetPipe();
  state->livePipe = nullptr;
}

void Core::ResetPipe() {
  state->call = "TPipe::Reset";
  for (const auto& buffer : state->buffers) {
    if (buffer.queue >= 0 && buffer.state != BufferState::Free) {
      Trap("E-34", "a queue tensor at UB 0x%x was not freed", buffer.start);
    }
  }
  state->buffers.clear();
  for (auto& queue : state->queues) {
    queue.buffers.clear();
  }
  state->ubUsed = 0;
}

void Core::UseSelectScratch() {
  if (state->ubUsed > kUbBytes - kSelectScratchBytes) {
    Trap("E-03", "Select needs the last %u bytes of the unified buffer, buffers reach %u", kSelectScratchBytes,
         state->ubUsed);
  }
}

uint32_t Core::UbUnused() const { return kUbBytes - state->ubUsed; }

int Core::MakeQueue(int position, pipe_t producer, pipe_t consumer, int depth) {
  Queue queue;
  queue.position = position;
  queue.producer = producer;
  queue.consumer = consumer;
  queue.depth = depth;
  state->queues.push_back(queue);
  return static_cast<int>(state->queues.size()) - 1;
}

UbRange Core::AddBuffer(uint32_t bytes) {
  state->call = "InitBuffer";
  state->scheduler->CheckTime(*state);
  if (state->livePipe == nullptr) {
    Trap("E-38", "InitBuffer without a live TPipe");
  }
  const uint64_t padded = (static_cast<uint64_t>(bytes) + kUbBlock - 1) / kUbBlock * kUbBlock;
  if (state->ubUsed + padded > kUbBytes) {
    Trap("E-03", "buffers of %llu bytes do not fit the unified buffer of %u",
         static_cast<unsigned long long>(state->ubUsed + padded), kUbBytes);
  }
  if (state->buffers.size() == kMaxBuffers) {
    Trap("E-04", "more than %d buffers in one TPipe", kMaxBuffers);
  }
  Buffer buffer;
  buffer.start = state->ubUsed;
  buffer.bytes = static_cast<uint32_t>(padded);
  state->buffers.push_back(buffer);
  state->ubUsed += buffer.bytes;
  if (state->scheduler->full) {
    std::fill_n(state->ub.begin() + buffer.start, buffer.bytes, kPoison);
    state->shadow.Forget(buffer.start / kUbBlock, (buffer.start + buffer.bytes) / kUbBlock);
  }
  return {buffer.start, bytes, static_cast<int32_t>(state->buffers.size()) - 1};
}

void Core::AddQueueBuffers(int queue, uint32_t count, uint32_t bytes) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto range = AddBuffer(bytes);
    state->buffers[range.buffer].queue = queue;
    state->queues[queue].buffers.push_back(range.buffer);
  }
}

UbRange Core::QueueAlloc(int id) {
  state->call = "AllocTensor";
  state->scheduler->CheckTime(*state);
  auto& queue = state->queues[id];
  std::vector<std::size_t> free;
  int alive = 0;
  for (const auto& buffer : state->buffers) {
    alive += buffer.queue >= 0 && buffer.state != BufferState::Free &&
             state->queues[buffer.queue].position == queue.position;
  }
  for (std::size_t i = 0; i < queue.buffers.size(); ++i) {
    const std::size_t at = (queue.next + i) % queue.buffers.size();
    if (state->buffers[queue.buffers[at]].state == BufferState::Free) {
      free.push_back(at);
    }
  }
  if (free.empty()) {
    Trap("E-06", "all %zu buffers of the queue are taken", queue.buffers.size());
  }
  if (alive >= kEventIds) {
    Trap("E-05", "more than 8 live buffers in one position");
  }
  const std::size_t at = free[state->scheduler->seeded ? state->scheduler->Pick(free.size()) : 0];
  queue.next = at + 1;
  auto& buffer = state->buffers[queue.buffers[at]];
  buffer.state = BufferState::Occupied;
  Join(state->known[Index(queue.producer)], buffer.freed);
  const UbRange range{buffer.start, buffer.bytes, queue.buffers[at]};
  Undefine(range, 0, buffer.bytes);
  return range;
}

namespace {

Buffer& Owned(Core& core, int queue, const UbRange& range) {
  auto& buffers = core.state->buffers;
  if (range.buffer < 0 || static_cast<std::size_t>(range.buffer) >= buffers.size() ||
      buffers[range.buffer].queue != queue) {
    core.Trap("E-09", "the tensor at UB 0x%x was not allocated from this queue", range.address);
  }
  return buffers[range.buffer];
}

}  // namespace

void Core::QueuePush(int id, const UbRange& range) {
  state->call = "EnQue";
  state->scheduler->CheckTime(*state);
  auto& queue = state->queues[id];
  auto& buffer = Owned(*this, id, range);
  if (buffer.state != BufferState::Occupied && buffer.state != BufferState::Dequeued) {
    Trap("E-09", "EnQue of a tensor at UB 0x%x that is not held", range.address);
  }
  if (queue.waiting.size() >= static_cast<std::size_t>(queue.depth)) {
    Trap("E-07", "more than %d tensors in the queue", queue.depth);
  }
  buffer.state = BufferState::Enqueued;
  buffer.produced = Snapshot(*state, queue.producer);
  queue.waiting.push_back(range.buffer);
}

UbRange Core::QueuePop(int id) {
  state->call = "DeQue";
  auto& queue = state->queues[id];
  if (queue.waiting.empty()) {
    Trap("E-08", "DeQue of an empty queue");
  }
  const int index = queue.waiting.front();
  queue.waiting.erase(queue.waiting.begin());
  auto& buffer = state->buffers[index];
  buffer.state = BufferState::Dequeued;
  Join(state->known[Index(queue.consumer)], buffer.produced);
  return {buffer.start, buffer.bytes, index};
}

void Core::QueueFree(int id, const UbRange& range) {
  state->call = "FreeTensor";
  auto& queue = state->queues[id];
  auto& buffer = Owned(*this, id, range);
  if (buffer.state == BufferState::Free) {
    Trap("E-09", "the tensor at UB 0x%x is freed twice", range.address);
  }
  queue.waiting.erase(std::remove(queue.waiting.begin(), queue.waiting.end(), range.buffer), queue.waiting.end());
  buffer.state = BufferState::Free;
  buffer.freed = Snapshot(*state, queue.consumer);
}

int Core::QueueCount(int id) const { return static_cast<int>(state->queues[id].waiting.size()); }

bool Core::QueueHasFree(int id) const {
  const auto& buffers = state->queues[id].buffers;
  return std::any_of(buffers.begin(), buffers.end(),
                     [this](int b) { return state->buffers[b].state == BufferState::Free; });
}

void Core::SetAtomic(AtomicMode mode, int elementType) {
  state->atomic = mode;
  state->atomicType = elementType;
}

AtomicMode Core::Atomic() const { return state->atomic; }
int Core::AtomicType() const { return state->atomicType; }

void Core::Yield() { state->scheduler->SwitchAway(*state); }

}  // namespace twin
