// A planned launch, carried from the first phase to the stream's worker.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "opcall.h"
#include "output_shapes.h"
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
  bool lenient = false;
  std::vector<PlanArgument> arguments;  // inputs, then outputs, in declaration order
  std::vector<ShapedOutput> shaped;     // of the outputs, those whose shape the kernel writes
};

// Is this operator among those of TWIN_LENIENT: "1" for all, or the names of their types, with commas?
bool Lenient(const std::string& type);

int32_t Execute(const LaunchPlan& plan, void* workspace, uint64_t workspaceBytes);

}  // namespace twin
