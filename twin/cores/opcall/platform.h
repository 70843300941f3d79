#pragma once
#include <optional>
#include <string>

#include "exe_graph/runtime/op_call.h"

namespace twin {

// The machine of a SoC, such as Ascend910B2; nothing for one that is not known. TWIN_CORES overrides its number of
// vector cores.
std::optional<fe::PlatFormInfos> PlatformOf(const std::string& soc);

// The names that PlatformOf takes; a star stands for the rest of a series' names.
std::string KnownSocs();

// "ascend910b" for Ascend910B2 and its like: the name under which operators declare support; empty for
// a SoC that is not known.
std::string ShortSocName(const std::string& soc);

}  // namespace twin
