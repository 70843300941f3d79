// One call of a legacy operator, as libacl_op_compiler hands it to libopapi, which computes with libtorch.
#pragma once
#include <cstdint>
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

}  // namespace twin

extern "C" {

// Whether libopapi has the operator: writes the work of the call, which may outlive descriptors and attributes. What is
// on the host is read now. A call that the operator does not take is told by twinSetErrorMessage, with `*task` empty.
bool twinPlanLegacy(const twin::LegacyCall* call, std::function<int32_t()>* task);
}
