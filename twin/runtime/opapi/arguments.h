// The kinds of arguments of an aclnn function. For each kind:
//   Handle  the C type that the caller passes,
//   Held    the executor's own copy, made and checked in phase one; tensor data is not touched,
//   Value   what the computation receives in phase two, over the device memory.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/ATen.h>

#include "twin/access.h"
#include "twin/handles.h"

namespace twin::opapi {

constexpr aclnnStatus NULL_POINTER = 161001;
constexpr aclnnStatus INVALID_ARGUMENT = 161002;

// Refuses a call in phase one.
class Refusal : public std::runtime_error {
 public:
  Refusal(aclnnStatus status, const std::string& reason) : std::runtime_error(reason), status_(status) {}
  aclnnStatus Status() const { return status_; }

 private:
  aclnnStatus status_;
};

// An argument of another kind than the function takes: the caller's signature is wrong, not its values.
class WrongSignature : public Refusal {
 public:
  explicit WrongSignature(const std::string& reason) : Refusal(INVALID_ARGUMENT, reason) {}
};

// Throws WrongSignature unless the address is a live handle of that kind.
void RequireKind(const void* handle, HandleKind kind, const char* argument);
// For numbers as wide as a pointer: a handle in their place is a wrong signature.
void RequireNoHandle(uint64_t value, const char* argument);
// cubeMathType, the only 8-bit number of the interface: 0 keep, 1 allow down-precision, 2 float16, 3 HF32.
void RequireMathType(int8_t value, const char* argument);
// For what the callee writes through, after the last argument: not a handle, and memory of this process.
void RequireMemory(const void* address, const char* argument);

// Elements lie as shape and strides say; every other format is one of the device's own.
bool IsPlainFormat(aclFormat format);
at::ScalarType ScalarTypeOf(aclDataType dataType, const char* argument);
std::string ShapeText(const std::vector<int64_t>& shape);

// A tensor argument as phase one saw it. A null optional tensor has no view.
struct HeldTensor {
  const char* argument = nullptr;
  std::optional<aclTensor> view;

  const std::vector<int64_t>& Shape() const { return view->viewDims; }
  at::Tensor Open() const;
  void AddTo(Accesses& accesses, bool writes) const;
};
struct HeldInput : HeldTensor {};
struct HeldOutput : HeldTensor {};
struct HeldSizedOutput : HeldOutput {
  aclTensor* handle = nullptr;
};
struct HeldInputList {
  std::vector<HeldInput> members;
};
struct HeldOutputList {
  std::vector<HeldOutput> members;
};

// An output: assigning a result checks its shape, converts its dtype and writes it. Absent outputs take nothing.
class Output {
 public:
  explicit Output(const HeldTensor& held) : argument_(held.argument), target_(held.Open()) {}
  void operator=(const at::Tensor& result) const;
  const at::Tensor& Target() const { return target_; }

 private:
  const char* argument_;
  at::Tensor target_;
};

// An output whose size only the data tells: the result is written densely and the caller's handle gets its shape.
class SizedOutput {
 public:
  explicit SizedOutput(const HeldSizedOutput& held)
      : argument_(held.argument), handle_(held.handle), target_(held.Open()) {}
  void operator=(const at::Tensor& result) const;

 private:
  const char* argument_;
  aclTensor* handle_;
  at::Tensor target_;
};

struct In {};
struct OptionalIn {};
struct InOut {};
struct Out {};
struct OptionalOut {};
struct SizedOut {};
struct InList {};
struct OutList {};
struct Number {};
struct OptionalNumber {};
struct NumberList {};
struct Ints {};
struct OptionalInts {};
struct Flags {};
struct Type {};
struct Text {};

HeldTensor HoldTensor(const aclTensor* handle, const char* argument);
HeldTensor HoldOptionalTensor(const aclTensor* handle, const char* argument);
std::vector<HeldTensor> HoldTensorList(const aclTensorList* handle, const char* argument);
at::Scalar HoldScalar(const aclScalar* handle, const char* argument);

template <class HandleType>
void RequireHandle(const HandleType* handle, const char* argument) {
  if (handle == nullptr) {
    throw Refusal(NULL_POINTER, std::string(argument) + " is null");
  }
  RequireKind(handle, KindOf<HandleType>::VALUE, argument);
}

// Integers, floating-point numbers and bool are held and passed as they are.
template <class Kind>
struct Argument {
  static_assert(std::is_arithmetic_v<Kind>);
  using Handle = Kind;
  using Held = Kind;
  using Value = Kind;
  static Held Hold(Handle handle, const char* argument) {
    if constexpr (std::is_integral_v<Kind> && sizeof(Kind) == sizeof(void*)) {
      RequireNoHandle(static_cast<uint64_t>(handle), argument);
    }
    if constexpr (std::is_same_v<Kind, int8_t>) {
      RequireMathType(handle, argument);
    }
    return handle;
  }
  static Value Open(const Held& held) { return held; }
};

template <>
struct Argument<In> {
  using Handle = const aclTensor*;
  using Held = HeldInput;
  using Value = at::Tensor;
  static Held Hold(Handle handle, const char* argument) { return {HoldTensor(handle, argument)}; }
  static Value Open(const Held& held) { return held.Open(); }
};

template <>
struct Argument<OptionalIn> {
  using Handle = const aclTensor*;
  using Held = HeldInput;
  using Value = std::optional<at::Tensor>;
  static Held Hold(Handle handle, const char* argument) { return {HoldOptionalTensor(handle, argument)}; }
  static Value Open(const Held& held) { return held.view ? Value(held.Open()) : std::nullopt; }
};

template <>
struct Argument<InOut> {
  using Handle = const aclTensor*;
  using Held = HeldOutput;
  using Value = at::Tensor;
  static Held Hold(Handle handle, const char* argument) { return {HoldTensor(handle, argument)}; }
  static Value Open(const Held& held) { return held.Open(); }
};

template <>
struct Argument<Out> {
  using Handle = const aclTensor*;
  using Held = HeldOutput;
  using Value = Output;
  static Held Hold(Handle handle, const char* argument) { return {HoldTensor(handle, argument)}; }
  static Value Open(const Held& held) { return Output(held); }
};

template <>
struct Argument<OptionalOut> {
  using Handle = const aclTensor*;
  using Held = HeldOutput;
  using Value = Output;
  static Held Hold(Handle handle, const char* argument) { return {HoldOptionalTensor(handle, argument)}; }
  static Value Open(const Held& held) { return Output(held); }
};

template <>
struct Argument<SizedOut> {
  using Handle = const aclTensor*;
  using Held = HeldSizedOutput;
  using Value = SizedOutput;
  static Held Hold(Handle handle, const char* argument) {
    // The caller keeps this handle until the stream is synchronised, and reads its shape then.
    return {{HoldTensor(handle, argument)}, const_cast<aclTensor*>(handle)};
  }
  static Value Open(const Held& held) { return SizedOutput(held); }
};

template <>
struct Argument<InList> {
  using Handle = const aclTensorList*;
  using Held = HeldInputList;
  using Value = std::vector<at::Tensor>;
  static Held Hold(Handle handle, const char* argument) {
    Held held;
    for (auto& tensor : HoldTensorList(handle, argument)) {
      held.members.push_back({std::move(tensor)});
    }
    return held;
  }
  static Value Open(const Held& held) {
    Value value;
    for (const auto& tensor : held.members) {
      value.push_back(tensor.Open());
    }
    return value;
  }
};

template <>
struct Argument<OutList> {
  using Handle = const aclTensorList*;
  using Held = HeldOutputList;
  using Value = std::vector<Output>;
  static Held Hold(Handle handle, const char* argument) {
    Held held;
    for (auto& tensor : HoldTensorList(handle, argument)) {
      held.members.push_back({std::move(tensor)});
    }
    return held;
  }
  static Value Open(const Held& held) { return Value(held.members.begin(), held.members.end()); }
};

template <>
struct Argument<Number> {
  using Handle = const aclScalar*;
  using Held = at::Scalar;
  using Value = at::Scalar;
  static Held Hold(Handle handle, const char* argument) { return HoldScalar(handle, argument); }
  static Value Open(const Held& held) { return held; }
};

template <>
struct Argument<OptionalNumber> {
  using Handle = const aclScalar*;
  using Held = std::optional<at::Scalar>;
  using Value = std::optional<at::Scalar>;
  static Held Hold(Handle handle, const char* argument) {
    return handle ? Held(HoldScalar(handle, argument)) : std::nullopt;
  }
  static Value Open(const Held& held) { return held; }
};

template <>
struct Argument<NumberList> {
  using Handle = const aclScalarList*;
  using Held = std::vector<at::Scalar>;
  using Value = std::vector<at::Scalar>;
  static Held Hold(Handle handle, const char* argument) {
    RequireHandle(handle, argument);
    Held held;
    for (const auto* member : handle->values) {
      held.push_back(HoldScalar(member, argument));
    }
    return held;
  }
  static Value Open(const Held& held) { return held; }
};

template <>
struct Argument<Ints> {
  using Handle = const aclIntArray*;
  using Held = std::vector<int64_t>;
  using Value = std::vector<int64_t>;
  static Held Hold(Handle handle, const char* argument) {
    RequireHandle(handle, argument);
    return handle->values;
  }
  static Value Open(const Held& held) { return held; }
};

// A null array is an empty one.
template <>
struct Argument<OptionalInts> : Argument<Ints> {
  static Held Hold(Handle handle, const char* argument) {
    return handle ? Argument<Ints>::Hold(handle, argument) : Held();
  }
};

template <>
struct Argument<Flags> {
  using Handle = const aclBoolArray*;
  using Held = std::vector<bool>;
  using Value = std::vector<bool>;
  static Held Hold(Handle handle, const char* argument) {
    RequireHandle(handle, argument);
    return Held(handle->values.begin(), handle->values.end());
  }
  static Value Open(const Held& held) { return held; }
};

// A dtype attribute; "undefined" leaves the choice to the operator.
template <>
struct Argument<Type> {
  using Handle = int32_t;
  using Held = std::optional<at::ScalarType>;
  using Value = std::optional<at::ScalarType>;
  static Held Hold(Handle handle, const char* argument) {
    const auto dataType = static_cast<aclDataType>(handle);
    return dataType == ACL_DT_UNDEFINED ? std::nullopt : Held(ScalarTypeOf(dataType, argument));
  }
  static Value Open(const Held& held) { return held; }
};

template <>
struct Argument<Text> {
  using Handle = const char*;
  using Held = std::string;
  using Value = std::string;
  static Held Hold(Handle handle, const char* argument) {
    RequireMemory(handle, argument);
    return handle;
  }
  static Value Open(const Held& held) { return held; }
};

}  // namespace twin::opapi
