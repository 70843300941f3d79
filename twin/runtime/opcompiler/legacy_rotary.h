// The legacy operators of npu_rotary_mul: RotaryMul and RotaryMulGrad.
#pragma once
#include "legacy_data.h"

namespace twin {

// As PlanLegacyNorm: empty for another operator, or for data that these do not take.
std::function<int32_t()> PlanLegacyRotary(const LegacyCall& call);

}  // namespace twin
