#include "legacy/operator.h"

#include "call.h"
#include "legacy/format.h"
#include "twin/attribute.h"

namespace twin::opapi {
namespace {

// Filled while the library is loaded; never destroyed.
std::map<std::string, LegacyOperator>& Table() {
  static auto& table = *new std::map<std::string, LegacyOperator>;
  return table;
}

LegacyOperand OperandOf(const aclTensorDesc* desc, const aclDataBuffer* buffer) {
  LegacyOperand operand;
  const auto type = aclGetTensorDescType(desc);
  if (type == ACL_DT_UNDEFINED || aclGetDataBufferAddr(buffer) == nullptr) {
    return operand;  // an optional operand that is not given
  }
  operand.absent = false;
  operand.type = ScalarTypeOf(type, "an operand");
  operand.format = aclGetTensorDescFormat(desc);
  const int64_t* dims = nullptr;
  const size_t rank = twinTensorDescOrigin(desc, &dims);
  operand.shape.assign(dims, dims + rank);
  operand.stored.resize(aclGetTensorDescNumDims(desc));
  for (size_t i = 0; i < operand.stored.size(); ++i) {
    aclGetTensorDescDimV2(desc, i, &operand.stored[i]);
  }
  operand.address = aclGetDataBufferAddr(buffer);
  if (LiesPlain(operand.format, operand.shape, operand.stored)) {
    operand.format = ACL_FORMAT_ND;
  }
  const bool packed = IsPacked(operand.format);
  if (packed) {
    CheckPacked(operand.format, operand.shape, operand.stored);
  }
  const auto needed = c10::multiply_integers(packed ? operand.stored : operand.shape) *
                      static_cast<int64_t>(c10::elementSize(operand.type));
  if (static_cast<int64_t>(aclGetDataBufferSizeV2(buffer)) < needed) {
    throw Refusal(INVALID_ARGUMENT, "an operand of shape " + ShapeText(operand.shape) + " has " +
                                        std::to_string(aclGetDataBufferSizeV2(buffer)) + " bytes, not " +
                                        std::to_string(needed));
  }
  if (twinTensorDescOnHost(desc)) {
    operand.onHost = operand.Read().clone();
  }
  return operand;
}

}  // namespace

at::Tensor LegacyOperand::Read() const {
  if (onHost.defined()) {
    return onHost;
  }
  return Unpacked(at::from_blob(address, IsPacked(format) ? stored : shape, at::TensorOptions().dtype(type)), format,
                  shape);
}

void LegacyOperand::Write(const at::Tensor& result) const {
  if (absent) {
    return;
  }
  TORCH_CHECK(result.sizes() == at::IntArrayRef(shape), "an output has shape ", shape, ", the result ", result.sizes());
  const auto memory = at::from_blob(address, IsPacked(format) ? stored : shape, at::TensorOptions().dtype(type));
  if (IsPacked(format)) {
    Pack(result.to(type), format, memory);
  } else {
    memory.copy_(result);
  }
}

LegacyArguments::LegacyArguments(const LegacyCall& call, const std::vector<const char*>& attributes) {
  for (int i = 0; i < call.numInputs; ++i) {
    inputs_.push_back(OperandOf(call.inputDesc[i], call.inputs[i]));
  }
  for (int i = 0; i < call.numOutputs; ++i) {
    outputs_.push_back(OperandOf(call.outputDesc[i], call.outputs[i]));
  }
  for (const char* name : attributes) {
    const int64_t* values = nullptr;
    const size_t count = twinAttributeIntegers(call.attributes, name, &values);
    if (count > 0) {
      integers_[name].assign(values, values + count);
    }
    double number = 0;
    if (twinAttributeNumber(call.attributes, name, &number)) {
      numbers_[name] = number;
    }
    if (const char* text = twinAttributeText(call.attributes, name); text != nullptr) {
      texts_[name] = text;
    }
  }
}

at::Tensor LegacyArguments::In(size_t input) const {
  TORCH_CHECK(Has(input), "input ", input, " is missing");
  return inputs_[input].Read();
}

std::optional<at::Tensor> LegacyArguments::OptionalIn(size_t input) const {
  return Has(input) ? std::make_optional(In(input)) : std::nullopt;
}

at::Tensor LegacyArguments::WideIn(size_t input) const {
  const auto tensor = In(input);
  const bool half = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  return half ? tensor.to(at::kFloat) : tensor;
}

std::vector<int64_t> LegacyArguments::Integers(const std::string& name) const {
  const auto found = integers_.find(name);
  TORCH_CHECK(found != integers_.end(), "the attribute ", name, " is missing");
  return found->second;
}

double LegacyArguments::Number(const std::string& name, double otherwise) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? otherwise : found->second;
}

std::string LegacyArguments::Text(const std::string& name, const std::string& otherwise) const {
  const auto found = texts_.find(name);
  return found == texts_.end() ? otherwise : found->second;
}

LegacyOperator::LegacyOperator(const char* operatorName, std::vector<const char*> names, Computation function)
    : name(operatorName), attributes(std::move(names)), computation(function) {
  Table().emplace(operatorName, *this);
}

}  // namespace twin::opapi

extern "C" __attribute__((visibility("default"))) bool twinPlanLegacy(const twin::LegacyCall* call,
                                                                      std::function<int32_t()>* task) {
  using namespace twin::opapi;
  const auto found = Table().find(call->name);
  if (found == Table().end()) {
    return false;
  }
  const LegacyOperator& known = found->second;
  try {
    *task = [arguments = LegacyArguments(*call, known.attributes), &known] {
      return Compute(known.name, [&] { known.computation(arguments); });
    };
  } catch (const std::exception& error) {
    Refuse(known.name, INVALID_ARGUMENT, error.what());
  }
  return true;
}
