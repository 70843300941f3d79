// Flags, barriers and the barrier between cores, and the system queries.
#pragma once
#include "ascendc/pipe.h"

namespace AscendC {

template <pipe_t pipe>
void PipeBarrier() {
  static_assert(pipe != PIPE_S, "PipeBarrier does not exist for PIPE_S");
  twin::Core::Current().Barrier(pipe);
}

template <HardEvent event>
void SetFlag(int32_t id) {
  static_assert(OnVectorCore(event), "this event does not exist on a vector core");
  constexpr auto pipes = kEventPipes[static_cast<int>(event)];
  twin::Core::Current().SetFlag(static_cast<int>(event), pipes.from, pipes.to, id);
}

template <HardEvent event>
void WaitFlag(int32_t id) {
  static_assert(OnVectorCore(event), "this event does not exist on a vector core");
  constexpr auto pipes = kEventPipes[static_cast<int>(event)];
  twin::Core::Current().WaitFlag(static_cast<int>(event), pipes.from, pipes.to, id);
}

template <bool isAIVOnly = true>
void SyncAll() {
  twin::Core::Current().SyncAll(isAIVOnly);
}

template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId) {
  static_assert(pipe != PIPE_S && pipe != PIPE_ALL, "E-14: CrossCoreSetFlag reports for one pipe other than PIPE_S");
  twin::Core::Current().CrossSet(modeId, pipe, flagId);
}

inline void CrossCoreWaitFlag(uint16_t flagId) { twin::Core::Current().CrossWait(flagId); }

template <uint8_t modeId, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId) {
  twin::Core::Current().CrossWait(flagId);
}

template <MemDsbT type>
void DataSyncBarrier() {}

inline int64_t GetBlockIdx() { return twin::Core::Current().BlockIdx(); }
inline int64_t GetBlockNum() { return twin::Core::Current().BlockNum(); }
inline int64_t GetSubBlockNum() { return twin::Core::Current().VectorsPerBlock(); }
inline int64_t GetSubBlockIdx() { return GetBlockIdx() % GetSubBlockNum(); }
inline int64_t GetTaskRation() { return GetSubBlockNum(); }
inline int64_t GetTaskRatio() { return GetSubBlockNum(); }
inline constexpr int64_t GetDataBlockSizeInBytes() { return twin::kUbBlock; }
inline void Trap() { twin::Core::Current().Trap("Trap", "the kernel called Trap()"); }
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return twin::Core::Current().UserWorkspace(workspace); }
inline void SetSysWorkspace(GM_ADDR) {}

namespace twin_detail {

struct Asserted {};

inline Asserted Assert(bool holds, const char* file, int line, const char* condition) {
  if (!holds) {
    twin::Core::Current().Trap("ASSERT", "%s:%d: %s", file, line, condition);
  }
  return {};
}

inline void operator+(Asserted) {}
template <typename T>
T operator+(T value, Asserted) {
  return value;
}

}  // namespace twin_detail

}  // namespace AscendC

inline __gm__ uint8_t* GetSysWorkSpacePtr() { return twin::Core::Current().SystemWorkspace(); }

// An operand, so that it may stand behind an expression: a device's build leaves ASSERT out.
#define ASSERT(condition) +::AscendC::twin_detail::Assert((condition) ? true : false, __FILE__, __LINE__, #condition)
