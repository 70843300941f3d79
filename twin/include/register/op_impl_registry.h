// Tiling, shape and type functions registered apart from the definition: IMPL_OP_OPTILING(Type).Tiling(..) and its
// like.
#pragma once
#include <functional>
#include <map>
#include <memory>
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
};

inline std::map<std::string, OpImplementation>& Implementations() {
  static std::map<std::string, OpImplementation> implementations;
  return implementations;
}

class OpImplRegister {
 public:
  explicit OpImplRegister(const char* type) : type_(type) { Implementations()[type_]; }
  OpImplRegister& Tiling(ge::graphStatus (*function)(TilingContext*)) {
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
