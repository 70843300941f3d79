#pragma once
#include <string>

#include "exe_graph/runtime/op_call.h"

namespace twin {

// The machine of the SoC that libascendcl reports; TWIN_CORES overrides its number of vector cores.
fe::PlatFormInfos PlatformOfDevice();

// "ascend910b" for Ascend910B2 and its like: the name under which operators declare support.
std::string ShortSocName(const std::string& soc);

}  // namespace twin
