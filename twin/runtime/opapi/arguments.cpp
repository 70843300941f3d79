#include "arguments.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace twin::opapi {
namespace {

template <class Number>
Number Read(const aclScalar& scalar) {
  Number value;
  std::memcpy(&value, scalar.value, sizeof(value));
  return value;
}

[[noreturn]] void Refuse(const char* argument, const std::string& reason) {
  throw Refusal(INVALID_ARGUMENT, std::string(argument) + " " + reason);
}

void CheckView(const aclTensor& view, const char* argument) {
  ScalarTypeOf(view.dataType, argument);
  if (!IsPlainFormat(view.format)) {
    Refuse(argument, "has the private format " + std::to_string(view.format));
  }
  if (view.viewDims.size() != view.strides.size()) {
    Refuse(argument, "has " + std::to_string(view.viewDims.size()) + " dimensions but " +
                         std::to_string(view.strides.size()) + " strides");
  }
  int64_t last = view.offset;
  bool empty = false;
  for (size_t i = 0; i < view.viewDims.size(); ++i) {
    if (view.viewDims[i] < 0 || view.strides[i] < 0) {
      Refuse(argument, "has a negative size or stride: shape " + ShapeText(view.viewDims) + ", strides " +
                           ShapeText(view.strides));
    }
    empty = empty || view.viewDims[i] == 0;
    last += (view.viewDims[i] - 1) * view.strides[i];
  }
  if (empty) {
    return;
  }
  if (view.data == nullptr) {
    throw Refusal(NULL_POINTER, std::string(argument) + "'s data is null");
  }
  int64_t storage = 1;
  for (const int64_t size : view.storageDims) {
    storage *= size;
  }
  if (view.offset < 0 || last >= storage) {
    Refuse(argument,
           "reaches element " + std::to_string(last) + " of a storage of " + std::to_string(storage) + " elements");
  }
}

std::string Hexadecimal(const void* address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIxPTR, reinterpret_cast<std::uintptr_t>(address));
  return text;
}

}  // namespace

bool IsPlainFormat(aclFormat format) {
  switch (format) {
    case ACL_FORMAT_UNDEFINED:
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_NC:
    case ACL_FORMAT_NCL:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NDHWC:
      return true;
    default:
      return false;
  }
}

void RequireKind(const void* handle, HandleKind kind, const char* argument) {
  const auto found = twinHandleKind(handle);
  if (found != kind) {
    const auto what = found == HandleKind::NONE ? Hexadecimal(handle) + ", no live handle" : KindName(found);
    throw WrongSignature(std::string(argument) + " is " + what + "; " + KindName(kind) + " is expected");
  }
}

void RequireNoHandle(uint64_t value, const char* argument) {
  const auto found = twinHandleKind(reinterpret_cast<const void*>(value));
  if (found != HandleKind::NONE) {
    throw WrongSignature(std::string(argument) + " is " + KindName(found) + "; a number is expected");
  }
}

void RequireMathType(int8_t value, const char* argument) {
  if (value < 0 || value > 3) {
    throw WrongSignature(std::string(argument) + " is " + std::to_string(value) + "; 0, 1, 2 or 3 is expected");
  }
}

void RequireMemory(const void* address, const char* argument) {
  if (address == nullptr) {
    throw Refusal(NULL_POINTER, std::string(argument) + " is null");
  }
  const auto found = twinHandleKind(address);
  if (found != HandleKind::NONE) {
    throw WrongSignature(std::string(argument) + " is " + KindName(found) + "; the call has too many arguments");
  }
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  if (mincore(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) & ~(page - 1)), 1, &resident) != 0) {
    throw WrongSignature(std::string(argument) + " is " + Hexadecimal(address) +
                         ", no memory of this process; the call has too few arguments");
  }
}

at::ScalarType ScalarTypeOf(aclDataType dataType, const char* argument) {
  switch (dataType) {
    case ACL_FLOAT:
      return at::kFloat;
    case ACL_FLOAT16:
      return at::kHalf;
    case ACL_BF16:
      return at::kBFloat16;
    case ACL_DOUBLE:
      return at::kDouble;
    case ACL_INT8:
      return at::kChar;
    case ACL_INT16:
      return at::kShort;
    case ACL_INT32:
      return at::kInt;
    case ACL_INT64:
      return at::kLong;
    case ACL_UINT8:
      return at::kByte;
    case ACL_UINT16:
      return at::kUInt16;
    case ACL_UINT32:
      return at::kUInt32;
    case ACL_UINT64:
      return at::kUInt64;
    case ACL_BOOL:
      return at::kBool;
    case ACL_COMPLEX32:
      return at::kComplexHalf;
    case ACL_COMPLEX64:
      return at::kComplexFloat;
    case ACL_COMPLEX128:
      return at::kComplexDouble;
    default:
      Refuse(argument, "has the data type " + std::to_string(dataType) + ", which is not supported");
  }
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::ostringstream text;
  text << '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    text << (i ? ", " : "") << shape[i];
  }
  text << ']';
  return text.str();
}

HeldTensor HoldTensor(const aclTensor* handle, const char* argument) {
  if (handle == nullptr) {
    throw Refusal(NULL_POINTER, std::string(argument) + " is null");
  }
  return HoldOptionalTensor(handle, argument);
}

HeldTensor HoldOptionalTensor(const aclTensor* handle, const char* argument) {
  if (handle == nullptr) {
    return {argument, std::nullopt};
  }
  RequireKind(handle, HandleKind::TENSOR, argument);
  CheckView(*handle, argument);
  return {argument, *handle};
}

std::vector<HeldTensor> HoldTensorList(const aclTensorList* handle, const char* argument) {
  RequireHandle(handle, argument);
  std::vector<HeldTensor> held;
  for (const auto* member : handle->values) {
    held.push_back(HoldTensor(member, argument));
  }
  return held;
}

at::Scalar HoldScalar(const aclScalar* handle, const char* argument) {
  RequireHandle(handle, argument);
  switch (handle->dataType) {
    case ACL_DOUBLE:
      return Read<double>(*handle);
    case ACL_FLOAT:
      return Read<float>(*handle);
    case ACL_FLOAT16:
      return static_cast<float>(Read<at::Half>(*handle));
    case ACL_BF16:
      return static_cast<float>(Read<at::BFloat16>(*handle));
    case ACL_INT64:
      return Read<int64_t>(*handle);
    case ACL_INT32:
      return static_cast<int64_t>(Read<int32_t>(*handle));
    case ACL_INT16:
      return static_cast<int64_t>(Read<int16_t>(*handle));
    case ACL_INT8:
      return static_cast<int64_t>(Read<int8_t>(*handle));
    case ACL_UINT8:
      return static_cast<int64_t>(Read<uint8_t>(*handle));
    case ACL_BOOL:
      return Read<bool>(*handle);
    case ACL_COMPLEX64:
      return Read<c10::complex<float>>(*handle);
    case ACL_COMPLEX128:
      return Read<c10::complex<double>>(*handle);
    default:
      Refuse(argument, "is a scalar of data type " + std::to_string(handle->dataType));
  }
}

at::Tensor HeldTensor::Open() const {
  if (!view) {
    return {};
  }
  const auto dtype = ScalarTypeOf(view->dataType, argument);
  const auto options = at::TensorOptions().dtype(dtype);
  if (c10::multiply_integers(view->viewDims) == 0) {
    return at::empty_strided(view->viewDims, view->strides, options);
  }
  auto* first = static_cast<char*>(view->data) + view->offset * static_cast<int64_t>(c10::elementSize(dtype));
  return at::from_blob(first, view->viewDims, view->strides, options);
}

void HeldTensor::AddTo(Accesses& accesses, bool writes) const {
  if (view) {
    const auto item = c10::elementSize(ScalarTypeOf(view->dataType, argument));
    const auto* first = static_cast<const char*>(view->data) + view->offset * static_cast<int64_t>(item);
    accesses.AddView(first, view->viewDims, view->strides, item, writes);
  }
}

void Output::operator=(const at::Tensor& result) const {
  if (!target_.defined()) {
    return;
  }
  TORCH_CHECK(result.sizes() == target_.sizes(), argument_, " has shape ", target_.sizes(), ", the result ",
              result.sizes());
  target_.copy_(result);
}

void SizedOutput::operator=(const at::Tensor& result) const {
  TORCH_CHECK(result.numel() <= target_.numel(), argument_, " has room for ", target_.numel(),
              " elements, the result has ", result.numel());
  if (result.numel() > 0) {
    const auto dense = result.to(target_.scalar_type()).contiguous();
    std::memcpy(target_.mutable_data_ptr(), dense.const_data_ptr(), dense.nbytes());
  }
  handle_->viewDims = result.sizes().vec();
  handle_->strides = result.contiguous().strides().vec();
}

}  // namespace twin::opapi
