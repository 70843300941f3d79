// Index rules common to the contexts: plain Get*(i) counts actual inputs, the others declared ones.
#pragma once
#include "exe_graph/runtime/op_call.h"

namespace gert {

class OpContext {
 public:
  explicit OpContext(const OpCall& call) : call_(call) {}
  std::size_t GetComputeNodeInputNum() const { return call_.inputs.size(); }
  std::size_t GetComputeNodeOutputNum() const { return call_.outputs.size(); }
  const RuntimeAttrs* GetAttrs() const { return &call_.attributes; }
  const char* GetNodeName() const { return call_.type.c_str(); }
  const char* GetNodeType() const { return call_.type.c_str(); }
  const InstanceInfo* GetIrInputInstanceInfo(std::size_t ir) const {
    return ir < call_.instances.size() ? &call_.instances[ir] : nullptr;
  }
  const Tensor* GetInputTensor(std::size_t i) const { return i < call_.inputs.size() ? &call_.inputs[i] : nullptr; }
  const Tensor* GetRequiredInputTensor(std::size_t ir) const { return Declared(ir, 0); }
  const Tensor* GetOptionalInputTensor(std::size_t ir) const { return Declared(ir, 0); }
  const Tensor* GetDynamicInputTensor(std::size_t ir, std::size_t relative) const { return Declared(ir, relative); }

 protected:
  const Tensor* Declared(std::size_t ir, std::size_t relative) const {
    if (ir >= call_.instances.size() || relative >= call_.instances[ir].count) {
      return nullptr;
    }
    return &call_.inputs[call_.instances[ir].start + relative];
  }
  const OpCall& call_;
};

}  // namespace gert
