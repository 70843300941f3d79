// Matmul objects of a vector core. Products are computed when they are issued; what the caller may rely on is decided
// by clocks: a product sees what the scalar unit has waited for, and its result is visible after the wait for it.
#include "ascendc/tiling.h"
#include "core_state.h"
#include "scheduler.h"

namespace twin {

namespace {

constexpr std::size_t kMaxCubeObjects = 4;

}

int Core::AddCubeObject() {
  state->call = "REGIST_MATMUL_OBJ";
  const auto& launch = state->scheduler->launch;
  if (state->taskType != KERNEL_TYPE_MIX_AIC_1_1 && state->taskType != KERNEL_TYPE_MIX_AIC_1_2) {
    Trap("E-32", "Matmul needs cube cores: the kernel type is another than KERNEL_TYPE_MIX_AIC_1_1 and 1_2");
  }
  if (launch.workspaceBytes < kSystemWorkspaceBytes) {
    Trap("E-31", "Matmul talks to the cube through the system workspace: tiling must add GetLibApiWorkSpaceSize()");
  }
  if (!state->buffers.empty()) {
    Trap("E-32", "REGIST_MATMUL_OBJ after InitBuffer");
  }
  if (state->cubeObjects.size() == kMaxCubeObjects) {
    Trap("E-32", "more than %zu Matmul objects", kMaxCubeObjects);
  }
  state->cubeObjects.emplace_back();
  return static_cast<int>(state->cubeObjects.size()) - 1;
}

void Core::CubeUse(int object, const char* call) {
  state->call = call;
  if (object < 0 || static_cast<std::size_t>(object) >= state->cubeObjects.size()) {
    Trap("E-32", "the Matmul object was not registered: REGIST_MATMUL_OBJ is missing");
  }
  for (std::size_t i = 0; i < state->cubeObjects.size(); ++i) {
    const auto& other = state->cubeObjects[i];
    if (static_cast<int>(i) != object && other.open && other.pending.empty()) {
      Trap("E-32", "Matmul object %d is used before End of object %zu", object, i);
    }
  }
  state->cubeObjects[object].open = true;
}

void Core::CubeIssue(int object, const char* call, bool waitsLater) {
  CubeUse(object, call);
  Issue(PIPE_M, call);
  if (waitsLater) {
    state->cubeObjects[object].pending.push_back(state->issued[PIPE_M]);
  }
}

void Core::CubeWait(int object) {
  CubeUse(object, "Matmul::WaitIterateAll");
  auto& pending = state->cubeObjects[object].pending;
  if (pending.empty()) {
    Trap("E-32", "WaitIterateAll without an IterateAll<false> that asked for it (waitIterateAll = true)");
  }
  auto& known = state->known[PIPE_S].at[PIPE_M];
  known = known < pending.front() ? pending.front() : known;
  pending.erase(pending.begin());
}

void Core::CubeFinish(int object) {
  if (!state->cubeObjects[object].pending.empty()) {
    Trap("E-32", "a product is asked for while WaitIterateAll for an earlier one is missing");
  }
  state->known[PIPE_S].at[PIPE_M] = state->issued[PIPE_M];
}

void Core::CubeEnd(int object) {
  state->call = "Matmul::End";
  if (object < 0 || static_cast<std::size_t>(object) >= state->cubeObjects.size()) {
    Trap("E-32", "the Matmul object was not registered: REGIST_MATMUL_OBJ is missing");
  }
  if (!state->cubeObjects[object].pending.empty()) {
    Trap("E-32", "End before WaitIterateAll");
  }
  state->cubeObjects[object].open = false;
}

float* Core::CubeScratch(uint64_t floats) {
  if (state->cubeScratch.size() < floats) {
    state->cubeScratch.resize(floats);
  }
  return state->cubeScratch.data();
}

}  // namespace twin
