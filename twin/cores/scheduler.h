// Runs the blocks of one launch as coroutines of the calling thread. Only waits switch; TWIN_SEED adds switches at
// every access to global memory and shuffles the order of the blocks, so that any legal interleaving can be asked for.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core_state.h"
#include "watchdog.h"

namespace twin {

class Scheduler {
 public:
  Scheduler(const Launch& launch);
  ~Scheduler();

  int Run(std::string& error);

  void SwitchAway(CoreState& core);  // returns when it is this core's turn again
  void MeetAll(CoreState& core);
  // A core of the group has set a flag: do all have now?
  void AnswerFlags(const CoreState& core, int mode, int flag);
  // Ends the launch from a place that cannot throw.
  [[noreturn]] void Drop(CoreState& core, const std::string& text);
  // Ends the kernel when its time is over.
  void CheckTime(CoreState& core) {
    if (watchdog_.Late() && !abandoning) {
      TimeIsOver(core);
    }
  }
  bool Random(uint32_t oneIn);
  std::size_t Pick(std::size_t count);

  const Launch& launch;
  const bool full;
  const bool seeded;
  const uint32_t vectorsPerBlock;
  bool abandoning = false;

 private:
  static void Enter();
  void Start(CoreState& core, uint32_t block);
  static void Leave(void* scheduler, uint64_t programCounter);
  void Body(CoreState& core);
  [[noreturn]] void TimeIsOver(CoreState& core);
  void Fail(int code, const std::string& text);
  std::string Overdue(const CoreState& core, const std::string& place) const;
  void Resume(CoreState& core);
  void Finish(CoreState& core);
  void ReleaseBarrier();
  bool Ready(const CoreState& core) const;
  void ResolveWait();
  void CheckHistory();
  void ServeFromL2();

  uint64_t seed_;
  std::vector<std::unique_ptr<CoreState>> cores_;
  std::vector<CoreState*> running_;
  std::vector<GmAccess> carried_;
  std::unique_ptr<L2Cache> l2_;
  uint64_t barriers_ = 0;
  Fiber main_;
  Watchdog watchdog_;
  CoreState* volatile stuck_ = nullptr;  // the core that the watchdog took out of its kernel
  volatile uint64_t stuckAt_ = 0;
  std::string error_;
  int code_ = 0;  // not 0: the launch has failed
};

extern thread_local CoreState* currentCore;

}  // namespace twin
