// The legacy operator of logspace: LogSpaceD.
#pragma once
#include "legacy_data.h"

namespace twin {

// As PlanLegacyNorm: empty for another operator, or for data that it does not take.
std::function<int32_t()> PlanLegacyLogspace(const LegacyCall& call);

}  // namespace twin
