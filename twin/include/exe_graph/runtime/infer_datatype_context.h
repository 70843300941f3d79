// gert::InferDataTypeContext.
#pragma once
#include "exe_graph/runtime/op_context.h"

namespace gert {

class InferDataTypeContext : public OpContext {
 public:
  explicit InferDataTypeContext(const OpCall& call) : OpContext(call), types_(call.outputs.size(), ge::DT_UNDEFINED) {}
  ge::DataType GetInputDataType(std::size_t i) const { return TypeOf(GetInputTensor(i)); }
  ge::DataType GetRequiredInputDataType(std::size_t ir) const { return TypeOf(Declared(ir, 0)); }
  ge::DataType GetOptionalInputDataType(std::size_t ir) const { return TypeOf(Declared(ir, 0)); }
  ge::DataType GetDynamicInputDataType(std::size_t ir, std::size_t relative) const {
    return TypeOf(Declared(ir, relative));
  }
  ge::graphStatus SetOutputDataType(std::size_t i, ge::DataType type) {
    if (i >= types_.size()) {
      return ge::GRAPH_FAILED;
    }
    types_[i] = type;
    return ge::GRAPH_SUCCESS;
  }
  ge::DataType OutputDataType(std::size_t i) const { return types_[i]; }

 private:
  static ge::DataType TypeOf(const Tensor* tensor) {
    return tensor == nullptr ? ge::DT_UNDEFINED : tensor->GetDataType();
  }
  std::vector<ge::DataType> types_;
};

}  // namespace gert
