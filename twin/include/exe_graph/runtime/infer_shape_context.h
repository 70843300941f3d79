// gert::InferShapeContext.
#pragma once
#include "exe_graph/runtime/op_context.h"

namespace gert {

class InferShapeContext : public OpContext {
 public:
  explicit InferShapeContext(const OpCall& call) : OpContext(call), shapes_(call.outputs.size()) {}
  const Shape* GetInputShape(std::size_t i) const { return ShapeOf(GetInputTensor(i)); }
  const Shape* GetRequiredInputShape(std::size_t ir) const { return ShapeOf(Declared(ir, 0)); }
  const Shape* GetOptionalInputShape(std::size_t ir) const { return ShapeOf(Declared(ir, 0)); }
  const Shape* GetDynamicInputShape(std::size_t ir, std::size_t relative) const {
    return ShapeOf(Declared(ir, relative));
  }
  Shape* GetOutputShape(std::size_t i) { return i < shapes_.size() ? &shapes_[i] : nullptr; }

 private:
  static const Shape* ShapeOf(const Tensor* tensor) { return tensor == nullptr ? nullptr : &tensor->GetStorageShape(); }
  std::vector<Shape> shapes_;
};

}  // namespace gert
