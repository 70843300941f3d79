// What one simulated core remembers during a launch.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "ascendc/launch.h"
#include "cross_flags.h"
#include "fiber.h"
#include "gm_history.h"
#include "l2_cache.h"
#include "ub_shadow.h"

namespace twin {

class Scheduler;

inline int Index(pipe_t pipe) { return pipe == PIPE_FIX ? 6 : static_cast<int>(pipe); }

struct Trapped {
  std::string text;
  int code = kTrapped;
};
struct Abandoned {};

struct Buffer {
  uint32_t start = 0;
  uint32_t bytes = 0;
  int queue = -1;
  BufferState state = BufferState::Free;
  Clock produced;
  Clock freed;
};

struct Queue {
  int position = 0;
  pipe_t producer = PIPE_V;
  pipe_t consumer = PIPE_V;
  int depth = 1;
  std::vector<int> buffers;
  std::vector<int> waiting;  // enqueued, oldest first
  std::size_t next = 0;
};

struct Event {
  bool raised[kEventIds] = {};
  bool reserved[kEventIds] = {};
  Clock clock[kEventIds];
};

struct CacheLineCopy {
  unsigned char bytes[64];
  uint64_t valid = 0;  // bit i: byte i is present
  uint64_t dirty = 0;  // bit i: byte i was stored by this core
  uint64_t ahead = 0;  // bit i: byte i was preloaded, and nothing has read it
};

// A Matmul object of this core.
struct CubeObject {
  bool open = false;              // used since its last End
  std::vector<uint32_t> pending;  // epochs of products that WaitIterateAll has yet to wait for
};

struct CoreState {
  Core core;
  Scheduler* scheduler = nullptr;
  uint32_t block = 0;
  uint32_t slot = 0;
  bool finished = false;
  bool atBarrier = false;
  uint64_t barriers = 0;

  uint32_t issued[kPipes] = {};
  Clock known[kPipes];  // known[p].at[q]: instructions of q finished before p's next one starts
  pipe_t pipe = PIPE_S;
  const char* call = "";
  int taskType = -1;
  AtomicMode atomic = AtomicMode::None;
  int atomicType = -1;

  VectorMask mask;
  void* livePipe = nullptr;
  std::vector<Buffer> buffers;
  std::vector<Queue> queues;
  uint32_t ubUsed = 0;
  Event events[kEvents];
  UbShadow shadow;
  std::vector<uint8_t> ub;
  std::unordered_map<uint64_t, CacheLineCopy> cache;
  std::vector<CubeObject> cubeObjects;
  std::vector<float> cubeScratch;
  CrossFlag crossFlags[kCrossFlags];
  std::shared_ptr<const CrossClock> cross;
  int waitsFor = -1;  // flag of the CrossCoreWaitFlag that this core is in
  GmHistory gm;
  bool keepsRequests = false;  // for L2
  L2Requests requests;
  std::size_t lastExtent = 0;

  Fiber fiber;
};

// The toolkit's compiler puts waits between the scalar unit and the other pipes where a kernel has none, both ways.
inline void KnowAsCompiled(CoreState& s, pipe_t pipe) {
  constexpr pipe_t others[] = {PIPE_V, PIPE_MTE2, PIPE_MTE3};
  if (pipe != PIPE_S) {
    s.known[Index(pipe)].at[PIPE_S] = s.issued[PIPE_S];
    return;
  }
  for (const pipe_t other : others) {
    s.known[PIPE_S].at[Index(other)] = s.issued[Index(other)];
  }
}

}  // namespace twin
