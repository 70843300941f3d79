// The rules that a Matmul tiling must keep: sizes of the cube's memories and granularity of its blocks.
#pragma once
#include "ascendc/core.h"
#include "kernel_tiling/kernel_tiling.h"

namespace AscendC {
namespace twin_detail {

constexpr int64_t kL0Bytes = 65536;
constexpr int64_t kL0CBytes = 131072;
constexpr int64_t kL1Bytes = 524288 - 128;

inline void RequirePositive(const char* field, int32_t value) {
  if (value <= 0) {
    twin::Core::Current().Trap("E-32", "TCubeTiling.%s is %d", field, value);
  }
}

inline void RequireMultiple(const char* field, int32_t value, int32_t unit) {
  if (value % unit != 0) {
    twin::Core::Current().Trap("E-32", "TCubeTiling.%s is %d, no multiple of %d", field, value, unit);
  }
}

inline void RequireFit(const char* memory, int64_t bytes, int64_t capacity) {
  if (bytes > capacity) {
    twin::Core::Current().Trap("E-28", "the tiling needs %lld bytes of %s, which has %lld",
                               static_cast<long long>(bytes), memory, static_cast<long long>(capacity));
  }
}

inline void RequireDepth(const char* field, int32_t depth, int32_t panels) {
  if (depth != panels && depth != 2 * panels) {
    twin::Core::Current().Trap("E-32", "TCubeTiling.%s is %d, expected %d or twice that", field, depth, panels);
  }
}

inline void CheckTiling(const tiling::TCubeTiling& t, int32_t aBytes, int32_t bBytes, bool multiLoads) {
  const struct {
    const char* name;
    int32_t value;
  } sizes[] = {{"usedCoreNum", t.usedCoreNum},
               {"M", t.M},
               {"N", t.N},
               {"Ka", t.Ka},
               {"Kb", t.Kb},
               {"singleCoreM", t.singleCoreM},
               {"singleCoreN", t.singleCoreN},
               {"singleCoreK", t.singleCoreK},
               {"baseM", t.baseM},
               {"baseN", t.baseN},
               {"baseK", t.baseK},
               {"depthA1", t.depthA1},
               {"depthB1", t.depthB1},
               {"stepM", t.stepM},
               {"stepN", t.stepN},
               {"stepKa", t.stepKa},
               {"stepKb", t.stepKb},
               {"dbL0A", t.dbL0A},
               {"dbL0B", t.dbL0B},
               {"dbL0C", t.dbL0C}};
  for (const auto& size : sizes) {
    RequirePositive(size.name, size.value);
  }
  RequireMultiple("baseM", t.baseM, 16);
  RequireMultiple("baseN", t.baseN, 16);
  RequireMultiple("baseK", t.baseK, 32 / (aBytes < bBytes ? aBytes : bBytes));
  const int64_t aBlock = static_cast<int64_t>(t.baseM) * t.baseK * aBytes;
  const int64_t bBlock = static_cast<int64_t>(t.baseK) * t.baseN * bBytes;
  RequireFit("L0A", aBlock * t.dbL0A, kL0Bytes);
  RequireFit("L0B", bBlock * t.dbL0B, kL0Bytes);
  RequireFit("L0C", static_cast<int64_t>(t.baseM) * t.baseN * 4 * t.dbL0C, kL0CBytes);
  RequireFit("L1", aBlock * t.depthA1 + bBlock * t.depthB1 + (t.isBias != 0 ? t.baseN * 4 : 0), kL1Bytes);
  RequireDepth("depthA1", t.depthA1, t.stepM * t.stepKa);
  RequireDepth("depthB1", t.depthB1, t.stepN * t.stepKb);
  if (!multiLoads && (t.stepM != 1 || t.stepN != 1)) {
    twin::Core::Current().Trap("E-32", "TCubeTiling.stepM and stepN are %d and %d, the configuration takes 1", t.stepM,
                               t.stepN);
  }
  if (t.singleCoreK > t.Ka && t.singleCoreK > t.Kb) {
    twin::Core::Current().Trap("E-32", "TCubeTiling.singleCoreK is %d, Ka is %d", t.singleCoreK, t.Ka);
  }
  if (t.iterateOrder != 0 && t.iterateOrder != 1) {
    twin::Core::Current().Trap("E-32", "TCubeTiling.iterateOrder is %d", t.iterateOrder);
  }
}

}  // namespace twin_detail
}  // namespace AscendC
