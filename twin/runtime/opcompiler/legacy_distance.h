// The legacy operators of cdist: Cdist and CdistGrad.
#pragma once
#include "legacy_data.h"

namespace twin {

// As PlanLegacyNorm: empty for another operator, or for data that these do not take.
std::function<int32_t()> PlanLegacyDistance(const LegacyCall& call);

}  // namespace twin
