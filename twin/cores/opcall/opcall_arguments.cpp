// What a generated pair hands over, in the order of the operator's declaration.
#include "opcall.h"

namespace twin {

AclnnCall& AclnnCall::Input(const aclTensor* tensor) {
  Argument argument;
  argument.present = tensor != nullptr;
  if (tensor != nullptr) {
    argument.members.push_back(tensor);
  }
  inputs_.push_back(argument);
  return *this;
}

AclnnCall& AclnnCall::Input(const aclTensorList* list) {
  Argument argument;
  argument.present = list != nullptr;
  argument.list = true;
  if (list != nullptr) {
    argument.members.assign(list->values.begin(), list->values.end());
  }
  inputs_.push_back(argument);
  return *this;
}

AclnnCall::Argument& AclnnCall::HostInput(const void* values, std::size_t bytes, ge::DataType type, int64_t count) {
  Argument argument;
  argument.present = values != nullptr || count == 0;
  argument.hostType = type;
  argument.hostDims = {count};
  if (values != nullptr) {
    const auto* from = static_cast<const unsigned char*>(values);
    argument.hostValues.assign(from, from + bytes);
  }
  inputs_.push_back(argument);
  return inputs_.back();
}

AclnnCall& AclnnCall::Input(const aclIntArray* values) {
  if (values == nullptr) {
    inputs_.emplace_back();
    return *this;
  }
  HostInput(values->values.data(), values->values.size() * sizeof(int64_t), ge::DT_INT64,
            static_cast<int64_t>(values->values.size()));
  return *this;
}

AclnnCall& AclnnCall::Input(const aclFloatArray* values) {
  if (values == nullptr) {
    inputs_.emplace_back();
    return *this;
  }
  HostInput(values->values.data(), values->values.size() * sizeof(float), ge::DT_FLOAT,
            static_cast<int64_t>(values->values.size()));
  return *this;
}

AclnnCall& AclnnCall::Input(const aclBoolArray* values) {
  if (values == nullptr) {
    inputs_.emplace_back();
    return *this;
  }
  HostInput(values->values.data(), values->values.size(), ge::DT_BOOL, static_cast<int64_t>(values->values.size()));
  return *this;
}

AclnnCall& AclnnCall::Input(const aclScalar* value) {
  Argument argument;
  argument.present = value != nullptr;
  if (value != nullptr) {
    argument.scalars.push_back(value);
  }
  inputs_.push_back(argument);
  return *this;
}

AclnnCall& AclnnCall::Input(const aclScalarList* values) {
  Argument argument;
  argument.present = values != nullptr;
  if (values != nullptr) {
    argument.scalars.assign(values->values.begin(), values->values.end());
  }
  inputs_.push_back(argument);
  return *this;
}

AclnnCall& AclnnCall::Output(const aclTensor* tensor) {
  Argument argument;
  argument.present = tensor != nullptr;
  if (tensor != nullptr) {
    argument.members.push_back(tensor);
  }
  outputs_.push_back(argument);
  return *this;
}

AclnnCall& AclnnCall::Output(const aclTensorList* list) {
  Input(list);
  outputs_.push_back(inputs_.back());
  inputs_.pop_back();
  return *this;
}

AclnnCall& AclnnCall::Attribute(bool value) {
  attributes_.emplace_back(value);
  return *this;
}

AclnnCall& AclnnCall::Attribute(int64_t value) {
  attributes_.emplace_back(value);
  return *this;
}

AclnnCall& AclnnCall::Attribute(double value) {
  attributes_.emplace_back(static_cast<float>(value));
  return *this;
}

AclnnCall& AclnnCall::Attribute(const char* value) {
  nullAttribute_ = nullAttribute_ || value == nullptr;
  attributes_.emplace_back(std::string(value == nullptr ? "" : value));
  return *this;
}

AclnnCall& AclnnCall::Attribute(const aclIntArray* value) {
  nullAttribute_ = nullAttribute_ || value == nullptr;
  attributes_.emplace_back(
      gert::TypedContinuousVector<int64_t>(value == nullptr ? std::vector<int64_t>() : value->values));
  return *this;
}

AclnnCall& AclnnCall::Attribute(const aclFloatArray* value) {
  nullAttribute_ = nullAttribute_ || value == nullptr;
  attributes_.emplace_back(gert::TypedContinuousVector<float>(value == nullptr ? std::vector<float>() : value->values));
  return *this;
}

AclnnCall& AclnnCall::Attribute(const aclBoolArray* value) {
  nullAttribute_ = nullAttribute_ || value == nullptr;
  attributes_.emplace_back(value == nullptr ? std::vector<uint8_t>() : value->values);
  return *this;
}

}  // namespace twin
