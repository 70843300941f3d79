#include "host_value.h"

#include <algorithm>

#include <ATen/core/enum_tag.h>

namespace twin {

bool IsMask(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
}

bool GivesHostValue(const c10::OperatorHandle& op, bool mask) {
  const auto& returns = op.schema().returns();
  const bool number = std::any_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
    const auto kind = result.type()->kind();
    return kind == c10::TypeKind::BoolType || kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
           kind == c10::TypeKind::NumberType;
  });
  const bool sized = op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
  // Indices have the size of the result, a mask has not.
  return number || (sized && (mask || op.operator_name().name != "aten::index"));
}

}  // namespace twin
