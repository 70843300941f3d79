#include "cross_flags.h"

#include <algorithm>

#include "ascendc/tiling.h"
#include "scheduler.h"

namespace twin {

namespace {

constexpr int kFirstSyncAllFlag = 11;
constexpr int kLastSyncAllFlag = 14;

void CheckFlag(Core& core, const char* call, int flag) {
  auto& s = *core.state;
  s.call = call;
  s.scheduler->CheckTime(s);
  if (flag >= kCrossFlags) {
    core.Trap("E-14", "flag %d: there are flags 0..15", flag);
  }
  if (flag >= kFirstSyncAllFlag && flag <= kLastSyncAllFlag) {
    core.Trap("E-14", "flag %d belongs to SyncAll", flag);
  }
  if (static_cast<std::size_t>(flag) < 2 * s.cubeObjects.size()) {
    core.Trap("E-14", "flag %d belongs to the Matmul objects of the kernel", flag);
  }
}

}  // namespace

void JoinCross(CrossClock& into, const CrossClock& from) {
  into.resize(std::max(into.size(), from.size()));
  for (std::size_t core = 0; core < from.size(); ++core) {
    for (int p = 0; p < kPipes; ++p) {
      into[core].at[p] = std::max(into[core].at[p], from[core].at[p]);
    }
  }
}

void Core::CrossSet(int mode, pipe_t pipe, int flag) {
  CheckFlag(*this, "CrossCoreSetFlag", flag);
  CheckResident();
  if (mode > 1 || (mode == 1 && state->scheduler->vectorsPerBlock != 2)) {
    Trap("E-14", "mode %d between %u vector cores per block: the twin runs the vector side only", mode,
         state->scheduler->vectorsPerBlock);
  }
  CrossClock finished;
  if (state->cross != nullptr) {
    finished = *state->cross;
  }
  finished.resize(std::max<std::size_t>(finished.size(), state->block + 1));
  finished[state->block] = state->known[Index(pipe)];
  finished[state->block].at[Index(pipe)] = state->issued[Index(pipe)];
  auto& own = state->crossFlags[flag];
  own.sets[mode].push_back({std::move(finished), state->requests.Mark()});
  if (own.sets[mode].size() + own.arrived.size() > kMostCrossSets) {
    Trap("E-14", "flag %d is set more than %u times without a wait", flag, kMostCrossSets);
  }
  state->scheduler->AnswerFlags(*state, mode, flag);
}

void Core::CrossWait(int flag) {
  CheckFlag(*this, "CrossCoreWaitFlag", flag);
  CheckResident();
  auto& own = state->crossFlags[flag];
  while (own.arrived.empty()) {
    state->waitsFor = flag;
    Yield();
  }
  state->waitsFor = -1;
  CrossClock known = std::move(own.arrived.front().finished);
  if (state->keepsRequests) {
    state->requests.WaitFor(std::move(own.arrived.front().meeting));
  }
  own.arrived.pop_front();
  if (state->cross != nullptr) {
    JoinCross(known, *state->cross);
  }
  state->cross = std::make_shared<const CrossClock>(std::move(known));
}

// Mode 0: all cores; mode 1: the two vector cores of a block.
void Scheduler::AnswerFlags(const CoreState& core, int mode, int flag) {
  std::vector<CoreState*> group;
  L2Meeting meeting;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    auto* other = running_[i];
    if (mode == 0 || other->block / 2 == core.block / 2) {
      group.push_back(other);
      meeting.members.push_back({i, {}});
    }
  }
  const bool all = std::all_of(group.begin(), group.end(), [mode, flag](const CoreState* member) {
    return !member->crossFlags[flag].sets[mode].empty();
  });
  if (!all) {
    return;
  }
  CrossClock together;
  for (std::size_t i = 0; i < group.size(); ++i) {
    auto& sets = group[i]->crossFlags[flag].sets[mode];
    JoinCross(together, sets.front().finished);
    meeting.members[i].place = sets.front().place;
    sets.pop_front();
  }
  const auto met = std::make_shared<const L2Meeting>(std::move(meeting));
  for (auto* member : group) {
    member->crossFlags[flag].arrived.push_back({together, met});
  }
}

}  // namespace twin
