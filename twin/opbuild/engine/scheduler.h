// Runs the blocks of one launch as coroutines of the calling thread. Only waits switch; TWIN_SEED adds switches at
// every access to global memory and shuffles the order of the blocks, so that any legal interleaving can be asked for.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core_state.h"

namespace twin {

class Scheduler {
public:
    Scheduler(const Launch &launch);
    ~Scheduler();

    int Run(std::string &error);

    void SwitchAway(CoreState &core);     // returns when it is this core's turn again
    void MeetAll(CoreState &core);
    bool Random(uint32_t oneIn);
    std::size_t Pick(std::size_t count);

    const Launch &launch;
    const bool full;
    const bool seeded;
    const uint32_t vectorsPerBlock;
    bool abandoning = false;

private:
    static void Enter();
    void Start(CoreState &core, uint32_t block);
    void Body(CoreState &core);
    void Finish(CoreState &core);
    void ReleaseBarrier();
    void CheckHistory();

    uint64_t seed_;
    std::vector<std::unique_ptr<CoreState>> cores_;
    std::vector<CoreState *> running_;
    std::vector<GmAccess> carried_;
    uint64_t barriers_ = 0;
    uint32_t finished_ = 0;
    ucontext_t main_;
    std::string error_;
    bool failed_ = false;
};

extern thread_local CoreState *currentCore;

}
