// Tiling, shape and type functions registered apart from the definition: IMPL_OP_OPTILING(Type).Tiling(..) and its
// like.
#pragma once
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "exe_graph/runtime/tiling_context.h"

namespace gert {

// What TilingParse prepares once for a machine, and tiling functions read by GetCompileInfo.
class TilingParseContext : public OpContext {
 public:
  TilingParseContext(const OpCall& call, void* compiled)
      : OpContext(call), platform_(call.platform), compiled_(compiled) {}
  template <typename T>
  T* GetCompiledInfo() {
    return static_cast<T*>(compiled_);
  }
  fe::PlatFormInfos* GetPlatformInfo() { return &platform_; }
  const char* GetCompiledJson() const { return "{}"; }

 private:
  fe::PlatFormInfos platform_;
  void* compiled_;
};

struct OpImplementation {
  ge::graphStatus (*tiling)(TilingContext*) = nullptr;
  ge::graphStatus (*inferShape)(InferShapeContext*) = nullptr;
  ge::graphStatus (*inferDataType)(InferDataTypeContext*) = nullptr;
  // Empty where its function fails.
  std::function<std::shared_ptr<void>(const OpCall&)> parse;
  // Declared inputs whose values the tiling or shape function reads, and outputs whose shape the kernel writes.
  std::set<int32_t> valuesOfInputs;
  std::set<int32_t> shapesByKernel;
};

// Where a tiling function may run: on the twin, on the host. The documentation has the numbers, not the names.
enum class TilingPlacement : int32_t { TILING_ON_HOST = 0, TILING_ON_AICPU = 1 };

inline std::map<std::string, OpImplementation>& Implementations() {
  static std::map<std::string, OpImplementation> implementations;
  return implementations;
}

class OpImplRegister {
 public:
  explicit OpImplRegister(const char* type) : type_(type) { Implementations()[type_]; }
  OpImplRegister& Tiling(ge::graphStatus (*function)(TilingContext*), std::size_t = 2048) {
    Implementations()[type_].tiling = function;
    return *this;
  }
  OpImplRegister& InferShape(ge::graphStatus (*function)(InferShapeContext*)) {
    Implementations()[type_].inferShape = function;
    return *this;
  }
  OpImplRegister& InferDataType(ge::graphStatus (*function)(InferDataTypeContext*)) {
    Implementations()[type_].inferDataType = function;
    return *this;
  }
  OpImplRegister& InputsDataDependency(std::initializer_list<int32_t> inputs) {
    Implementations()[type_].valuesOfInputs.insert(inputs);
    return *this;
  }
  OpImplRegister& TilingInputsDataDependency(std::initializer_list<int32_t> inputs) {
    return InputsDataDependency(inputs);
  }
  OpImplRegister& TilingInputsDataDependency(std::initializer_list<int32_t> inputs,
                                             std::initializer_list<TilingPlacement>) {
    return InputsDataDependency(inputs);
  }
  OpImplRegister& OutputShapeDependOnCompute(std::initializer_list<int32_t> outputs) {
    Implementations()[type_].shapesByKernel.insert(outputs);
    return *this;
  }
  template <typename CompileInfo>
  OpImplRegister& TilingParse(ge::graphStatus (*function)(TilingParseContext*)) {
    Implementations()[type_].parse = [function](const OpCall& call) {
      std::shared_ptr<void> compiled = std::make_shared<CompileInfo>();
      TilingParseContext context(call, compiled.get());
      return function(&context) == ge::GRAPH_SUCCESS ? compiled : std::shared_ptr<void>();
    };
    return *this;
  }

 private:
  std::string type_;
};

}  // namespace gert

#define IMPL_OP(OpType) static const ::gert::OpImplRegister g_##OpType##Implementation = ::gert::OpImplRegister(#OpType)
#define IMPL_OP_OPTILING(OpType) \
  static const ::gert::OpImplRegister g_##OpType##TilingImplementation = ::gert::OpImplRegister(#OpType)
#define IMPL_OP_INFERSHAPE(OpType) \
  static const ::gert::OpImplRegister g_##OpType##ShapeImplementation = ::gert::OpImplRegister(#OpType)
