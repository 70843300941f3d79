// The legacy operators of a norm: LpNormReduceV2, LpNormUpdateV2 and, around them for half precision, Cast.
#pragma once
#include <functional>

#include "acl/acl_op.h"

namespace twin {

struct LegacyCall {
  const char* name;
  int numInputs;
  const aclTensorDesc* const* inputDesc;
  const aclDataBuffer* const* inputs;
  int numOutputs;
  const aclTensorDesc* const* outputDesc;
  aclDataBuffer* const* outputs;
  const aclopAttr* attributes;
};

// The computation, which keeps nothing of the call but addresses on the device; empty for another operator, or for data
// that these do not take.
std::function<int32_t()> PlanLegacyNorm(const LegacyCall& call);

}  // namespace twin
