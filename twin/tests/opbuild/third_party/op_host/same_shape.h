#pragma once
#include "register/op_def_registry.h"

namespace ge {

inline ge::graphStatus SameShape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = *context->GetInputShape(0);
  return GRAPH_SUCCESS;
}

inline ge::graphStatus SameType(gert::InferDataTypeContext* context) {
  return context->SetOutputDataType(0, context->GetInputDataType(0));
}

}  // namespace ge
