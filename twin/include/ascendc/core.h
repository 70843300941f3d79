// One simulated vector core as the kernel-side headers see it: its clocks, its unified buffer and its view of GM.
// Instructions act at once, in program order; what the hardware would leave unordered is caught by vector clocks
// whose components are the pipes and whose edges are flags, queues and barriers (tables 0.2 and E).
#pragma once
#include <cstddef>
#include <cstdint>

#include "ascendc/qualifiers.h"

enum pipe_t { PIPE_S = 0, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX = 10 };

namespace twin {

constexpr uint32_t kUbBytes = 196608;
constexpr uint32_t kUbBlock = 32;
constexpr int kPipes = 7;  // S, V, M, MTE1, MTE2, MTE3, FIX
constexpr int kEventIds = 8;
constexpr int kEvents = 36;
constexpr int kMaxBuffers = 64;

// Bytes of one buffer, as a LocalTensor carries them.
struct UbRange {
  uint32_t address = 0;
  uint32_t bytes = 0;
  int32_t buffer = -1;
};

struct Clock {
  uint32_t at[kPipes] = {};
};

// Registers of the vector unit. The mask: lanes of each repeat, or (counter) the elements of all repeats in `low`.
struct VectorMask {
  bool counter = false;
  uint64_t high = ~0ull;
  uint64_t low = ~0ull;
  float deqScale = 0;       // of Cast from int32_t to half
  uint16_t merged[4] = {};  // records that MrgSort took from each list
  // The register of comparisons, a bit for each lane, and which of its bits are defined.
  uint64_t compared[2] = {};
  uint64_t comparedDefined[2] = {};
};

enum class AtomicMode : uint8_t { None, Add, Max, Min };
enum class BufferState : uint8_t { Free, Occupied, Enqueued, Dequeued };

struct CoreState;

class Core {
 public:
  static Core& Current();

  [[noreturn]] void Trap(const char* tag, const char* format, ...) __attribute__((format(printf, 3, 4)));

  int64_t BlockIdx() const;
  int64_t BlockNum() const;
  int64_t VectorsPerBlock() const;
  uint64_t TilingKey() const;
  bool FullChecks() const;
  bool Lenient() const;
  void SetTaskType(int type);
  void InferTaskType();
  __gm__ uint8_t* UserWorkspace(__gm__ void* workspace);
  __gm__ uint8_t* SystemWorkspace() const;
  const void* TilingData(const __gm__ void* tiling, std::size_t bytes);

  // Pipes and events.
  void Issue(pipe_t pipe, const char* call);
  void SetFlag(int event, pipe_t from, pipe_t to, int32_t id);
  void WaitFlag(int event, pipe_t from, pipe_t to, int32_t id);
  int FetchEvent(int event);
  int AllocEvent(int event);
  void ReleaseEvent(int event, int id);
  void Barrier(pipe_t pipe);
  void KnowFinished(pipe_t knower, pipe_t finished);
  void SyncAll(bool vectorOnly);
  void CrossSet(int mode, pipe_t pipe, int flag);
  void CrossWait(int flag);

  // Unified buffer. The access functions check extent, alignment and order for the instruction last issued.
  void OpenPipe(void* pipe);
  void* LivePipe() const;
  void ClosePipe();
  void DestroyPipe();
  void ResetPipe();
  VectorMask& Mask();
  // Selects take the last 8 KiB of the unified buffer as scratch.
  void UseSelectScratch();
  uint32_t UbUnused() const;  // bytes behind the buffers
  int MakeQueue(int position, pipe_t producer, pipe_t consumer, int depth);
  void AddQueueBuffers(int queue, uint32_t count, uint32_t bytes);
  UbRange AddBuffer(uint32_t bytes);
  UbRange QueueAlloc(int queue);
  void QueuePush(int queue, const UbRange& range);
  UbRange QueuePop(int queue);
  void QueueFree(int queue, const UbRange& range);
  int QueueCount(int queue) const;
  bool QueueHasFree(int queue) const;

  const uint8_t* UbData(const UbRange& range) const;
  // The rest of the buffer that an address lies in, for instructions that take addresses in place of tensors.
  UbRange UbAt(uint64_t address, const char* what);
  const uint8_t* UbRead(const UbRange& range, uint64_t offset, uint64_t bytes, uint32_t alignment = kUbBlock);
  uint8_t* UbWrite(const UbRange& range, uint64_t offset, uint64_t bytes, uint32_t alignment = kUbBlock);
  // For the vector unit, the bytes that `bits` name of eight aligned blocks; from what is returned on they lie at
  // `offsets`. Null where an access to one of them would trap, or (a read) where one is not defined. A read that is not
  // `chained` may not be of what the instruction last issued has written. A write leaves its bytes defined.
  const uint8_t* UbReadBlocks(const UbRange& range, const uint64_t (&offsets)[8], const uint32_t (&bits)[8],
                              bool chained);
  uint8_t* UbWriteBlocks(const UbRange& range, const uint64_t (&offsets)[8], const uint32_t (&bits)[8]);
  // Has the instruction last issued written any block of these bytes?
  bool UbWrittenNow(const UbRange& range, uint64_t offset, uint64_t bytes) const;
  // One element on the scalar unit.
  void UbLoad(const UbRange& range, uint64_t index, void* value, uint32_t bytes);
  void UbStore(const UbRange& range, uint64_t index, const void* value, uint32_t bytes);
  // What is there, unchecked; outside a buffer or a tensor of the launch the value stays as it was.
  void UbPeek(const UbRange& range, uint64_t index, void* value, uint32_t bytes) const;
  void GmPeek(const __gm__ void* address, void* value, uint32_t bytes) const;
  // Which bytes an instruction has left defined: all, none, or those defined in its sources.
  void Define(const UbRange& range, uint64_t offset, uint64_t bytes);
  void Undefine(const UbRange& range, uint64_t offset, uint64_t bytes);
  bool Defined(const UbRange& range, uint64_t offset, uint64_t bytes) const;
  void RequireDefined(const UbRange& range, uint64_t offset, uint64_t bytes);

  // Global memory: DMA, and scalar access through this core's data cache.
  const uint8_t* GmRead(const __gm__ void* address, uint64_t bytes);
  uint8_t* GmWrite(__gm__ void* address, uint64_t bytes);
  uint8_t* GmAccumulate(__gm__ void* address, uint64_t bytes);
  void SetAtomic(AtomicMode mode, int elementType);
  AtomicMode Atomic() const;
  int AtomicType() const;
  void ScalarLoad(const __gm__ void* address, void* value, uint32_t bytes);
  void ScalarStore(__gm__ void* address, const void* value, uint32_t bytes);
  void CleanCache(const __gm__ void* address, bool whole);
  void PreloadCache(const __gm__ void* address);
  void Yield();
  // `rows` stretches of `bytes`, `pitch` bytes from start to start.
  const uint8_t* GmReadRows(const __gm__ void* address, uint64_t rows, uint64_t bytes, uint64_t pitch);
  uint8_t* GmWriteRows(__gm__ void* address, uint64_t rows, uint64_t bytes, uint64_t pitch, bool accumulates);
  // Of the same stretches, that something has written each 32 bytes; where the launch says what nothing has (full).
  void RequireWritten(const __gm__ void* address, uint64_t rows, uint64_t bytes, uint64_t pitch);

  // Matmul objects: the cube serves this core's requests in order; PIPE_M stands for its work on them.
  int AddCubeObject();
  void CubeUse(int object, const char* call);
  void CubeIssue(int object, const char* call, bool waitsLater);
  void CubeWait(int object);
  void CubeFinish(int object);  // what was issued is over and visible
  void CubeEnd(int object);
  float* CubeScratch(uint64_t floats);
  // Counts `rows` stretches that lie so in the unified buffer and go to the cube or come from it. An A2 has no way for
  // them but through GM: a core's part of the system workspace, in which they lie as in the buffer.
  void CubeCarries(const UbRange& range, uint64_t offset, uint64_t rows, uint64_t bytes, uint64_t pitch, bool write);

  CoreState* state;

 private:
  // Blocks that wait for each other: all on cores of their own, started together.
  void CheckResident();
};

}  // namespace twin
