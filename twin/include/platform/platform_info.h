// fe::PlatformInfoManager: the machine under the name of a SoC, for host code that asks outside of a tiling function.
#pragma once
#include <string>

#include "exe_graph/runtime/op_call.h"

namespace fe {

struct OptionalInfos {};

class PlatformInfoManager {
 public:
  static PlatformInfoManager& Instance() {
    static PlatformInfoManager manager;
    return manager;
  }
  static PlatformInfoManager& GeInstance() { return Instance(); }
  uint32_t InitializePlatformInfo() { return 0; }
  uint32_t Finalize() { return 0; }
};

}  // namespace fe
