// What data_faults.h writes, as the operators that have it declare it: the last input, and again the last output, since
// records of other calls in it stay.
#pragma once
#include <vector>

#include "register/op_def_registry.h"

namespace fault {

constexpr int64_t CORES = 64;
constexpr int64_t WORDS = 8;

template <typename Definition>
void DeclareInput(Definition& op, const std::vector<ge::Format>& formats) {
  const std::vector<ge::DataType> types(formats.size(), ge::DT_INT64);
  op.Input("faults").ParamType(ops::OPTIONAL).DataType(types).Format(formats);
}

template <typename Definition>
void DeclareOutput(Definition& op, const std::vector<ge::Format>& formats) {
  const std::vector<ge::DataType> types(formats.size(), ge::DT_INT64);
  op.Output("faults_out").ParamType(ops::OPTIONAL).DataType(types).Format(formats);
}

// `output`: its place among the outputs.
inline ge::graphStatus InferShape(gert::InferShapeContext* context, std::size_t output) {
  auto* shape = context->GetOutputShape(output);
  if (shape != nullptr) {
    shape->SetDimNum(0);
    shape->AppendDim(CORES);
    shape->AppendDim(WORDS);
  }
  return ge::GRAPH_SUCCESS;
}

// Whether it is absent or has the right size.
inline bool Fits(const gert::TilingContext* context, std::size_t output) {
  const auto* shape = context->GetOutputShape(output);
  return shape == nullptr || shape->GetStorageShape().GetShapeSize() == CORES * WORDS;
}

}  // namespace fault
