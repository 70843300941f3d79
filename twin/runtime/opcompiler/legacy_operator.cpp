// aclopCompileAndExecute. torch_npu comes here for the operators that it has no aclnn call for, a few of which
// legacy_*.cpp have, and libopapi those that need libtorch, and when a function of an aclnn pair is missing: refused by
// name, which tells what the twin lacks.
#include <dlfcn.h>

#include <algorithm>

#include "acl/acl_op_compiler.h"
#include "legacy_distance.h"
#include "legacy_logspace.h"
#include "legacy_norm.h"
#include "legacy_rotary.h"
#include "refusal.h"
#include "twin/access.h"

using namespace twin;

namespace {

aclError RefuseOperator(const char* function, const char* opType) {
  const char* name = opType == nullptr ? "null" : opType;
  const aclError code =
      Refuse(ACL_ERROR_INTERNAL_ERROR,
             "[twin] %s(opType=%s): the legacy operator is not emulated; torch_npu asks for it when the aclnn "
             "function of the operator is missing",
             function, name);
  aclAppLog(ACL_ERROR, function, __FILE__, __LINE__, "legacy operator %s is not emulated", name);
  return code;
}

Accesses AccessesOf(const LegacyCall& call) {
  Accesses accesses;
  const auto add = [&accesses](const aclDataBuffer* buffer, bool writes) {
    accesses.Add(aclGetDataBufferAddr(buffer), aclGetDataBufferSizeV2(buffer), writes);
  };
  std::for_each_n(call.inputs, call.numInputs, [&](const auto* buffer) { add(buffer, false); });
  std::for_each_n(call.outputs, call.numOutputs, [&](const auto* buffer) { add(buffer, true); });
  return accesses;
}

// This library is loaded without libtorch, so libopapi is found when it is needed, beside it.
bool PlanByTorch(const LegacyCall& call, std::function<int32_t()>& task) {
  using Plan = decltype(&twinPlanLegacy);
  static const auto plan = [] {
    void* library = dlopen("libopapi.so", RTLD_NOW | RTLD_LOCAL);
    return library == nullptr ? nullptr : reinterpret_cast<Plan>(dlsym(library, "twinPlanLegacy"));
  }();
  return plan != nullptr && call.name != nullptr && plan(&call, &task);
}

aclError Run(const char* function, const LegacyCall& call, aclrtStream stream) {
  std::function<int32_t()> task;
  for (const auto plan : {PlanLegacyNorm, PlanLegacyRotary, PlanLegacyDistance, PlanLegacyLogspace}) {
    if (!task) {
      task = plan(call);
    }
  }
  if (!task && PlanByTorch(call, task) && !task) {
    return ACL_ERROR_INVALID_PARAM;  // libopapi has said why
  }
  if (!task) {
    return RefuseOperator(function, call.name);
  }
  return Submit(stream, call.name, twinStrictStreams() ? AccessesOf(call) : Accesses(), std::move(task));
}

}  // namespace

aclError aclopCompileAndExecute(const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
                                const aclDataBuffer* const inputs[], int numOutputs,
                                const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
                                const aclopAttr* attr, aclopEngineType, aclopCompileType, const char*,
                                aclrtStream stream) {
  return Run(__func__, {opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr}, stream);
}

aclError aclopCompileAndExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[],
                                  aclDataBuffer* inputs[], int numOutputs, aclTensorDesc* outputDesc[],
                                  aclDataBuffer* outputs[], aclopAttr* attr, aclopEngineType, aclopCompileType,
                                  const char*, aclrtStream stream) {
  return Run(__func__, {opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr}, stream);
}
