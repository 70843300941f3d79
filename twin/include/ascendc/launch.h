// Runs a kernel entry on simulated vector cores. Used by the generated libcust_opapi and by the kernel tests.
#pragma once
#include <cstddef>
#include <cstdint>

namespace twin {

constexpr int kTrapped = 507015;   // ACL_ERROR_RT_AICORE_EXCEPTION
constexpr int kTimedOut = 507014;  // ACL_ERROR_RT_AICORE_TIMEOUT
constexpr uint64_t kSystemWorkspaceBytes = 16777216;
constexpr unsigned char kPoison = 0xA5;

// Global memory that a launch may touch.
struct GmExtent {
  const void* start;
  uint64_t bytes;
  const char* name;
  bool writable;
  bool poisoned = false;  // filled with kPoison before the launch
};

struct Launch {
  const char* name;
  void (*entry)(void* const* arguments);
  void* const* arguments;
  const GmExtent* extents;
  std::size_t extentCount;
  uint32_t blockDim;
  uint32_t cores;            // physical vector cores that the kernel's type can use
  uint32_t vectorsPerBlock;  // of a block: 2 for KERNEL_TYPE_MIX_AIC_1_2; 0 stands for 1
  uint32_t scheduleMode;
  uint64_t tilingKey;
  void* workspace;
  uint64_t workspaceBytes;
  const void* tiling;
  std::size_t tilingBytes;
  bool lenient = false;  // bounds as a padded allocation has them, and copies cut to whole blocks
};

// 0, or kTrapped or kTimedOut with the report in `error`. TWIN_SEED, TWIN_CHECK and TWIN_KERNEL_TIMEOUT are read at
// each launch.
int Run(const Launch& launch, char* error, std::size_t capacity);

}  // namespace twin
