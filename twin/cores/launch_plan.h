// A planned launch, carried from the first phase to the stream's worker.
#pragma once
#include <cstdint>
#include <vector>

#include "opcall.h"
#include "views.h"

namespace twin {

struct PlanArgument {
  bool present = false;
  bool list = false;
  std::vector<View> members;
  std::vector<unsigned char> hostValues;
};

struct LaunchPlan {
  const char* name = nullptr;
  KernelEntry entry = nullptr;
  std::vector<unsigned char> tiling;
  uint64_t tilingKey = 0;
  uint32_t blockDim = 0;
  uint32_t scheduleMode = 0;
  uint32_t cores = 0;
  uint32_t vectorsPerBlock = 1;
  std::vector<PlanArgument> arguments;  // inputs, then outputs, in declaration order
};

int32_t Execute(const LaunchPlan& plan, void* workspace, uint64_t workspaceBytes);

}  // namespace twin
