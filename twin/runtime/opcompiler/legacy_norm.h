// The legacy operators of a norm: LpNormReduceV2, LpNormUpdateV2 and, around them for half precision, Cast.
#pragma once
#include "legacy_data.h"

namespace twin {

// The computation, which keeps nothing of the call but addresses on the device; empty for another operator, or for data
// that these do not take.
std::function<int32_t()> PlanLegacyNorm(const LegacyCall& call);

}  // namespace twin
