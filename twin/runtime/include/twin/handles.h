// The twin's own layout of the opaque aclnn handles.
// Shared by libnnopbase (which makes and destroys them), libopapi and the generated libcust_opapi.
// Only containers whose layout does not depend on the C++11 ABI flag appear here: the libraries of the
// twin that link torch follow torch's ABI, the others the compiler's default.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "acl/acl.h"

using aclnnStatus = int32_t;

struct aclTensor {
  std::vector<int64_t> viewDims;
  std::vector<int64_t> strides;  // elements
  std::vector<int64_t> storageDims;
  int64_t offset;  // elements, from the start of the storage
  aclDataType dataType;
  aclFormat format;
  void* data;  // start of the storage
};

struct aclScalar {
  aclDataType dataType;
  alignas(16) unsigned char value[16];
};

struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclFloatArray {
  std::vector<float> values;
};
struct aclBoolArray {
  std::vector<unsigned char> values;
};
struct aclTensorList {
  std::vector<aclTensor*> values;
};  // owns its members
struct aclScalarList {
  std::vector<aclScalar*> values;
};  // owns its members

// One planned call. `run` enqueues the work on the stream; the second phase calls it once and deletes the executor.
struct aclOpExecutor {
  const char* name;  // static storage
  std::function<aclnnStatus(void* workspace, uint64_t workspaceSize, aclrtStream stream)> run;
};

namespace twin {

enum class HandleKind : int32_t { NONE, TENSOR, SCALAR, INT_ARRAY, FLOAT_ARRAY, BOOL_ARRAY, TENSOR_LIST, SCALAR_LIST };

template <class Handle>
struct KindOf;
template <>
struct KindOf<aclTensor> {
  static constexpr auto VALUE = HandleKind::TENSOR;
};
template <>
struct KindOf<aclScalar> {
  static constexpr auto VALUE = HandleKind::SCALAR;
};
template <>
struct KindOf<aclIntArray> {
  static constexpr auto VALUE = HandleKind::INT_ARRAY;
};
template <>
struct KindOf<aclFloatArray> {
  static constexpr auto VALUE = HandleKind::FLOAT_ARRAY;
};
template <>
struct KindOf<aclBoolArray> {
  static constexpr auto VALUE = HandleKind::BOOL_ARRAY;
};
template <>
struct KindOf<aclTensorList> {
  static constexpr auto VALUE = HandleKind::TENSOR_LIST;
};
template <>
struct KindOf<aclScalarList> {
  static constexpr auto VALUE = HandleKind::SCALAR_LIST;
};

inline const char* KindName(HandleKind kind) {
  switch (kind) {
    case HandleKind::TENSOR:
      return "an aclTensor";
    case HandleKind::SCALAR:
      return "an aclScalar";
    case HandleKind::INT_ARRAY:
      return "an aclIntArray";
    case HandleKind::FLOAT_ARRAY:
      return "an aclFloatArray";
    case HandleKind::BOOL_ARRAY:
      return "an aclBoolArray";
    case HandleKind::TENSOR_LIST:
      return "an aclTensorList";
    case HandleKind::SCALAR_LIST:
      return "an aclScalarList";
    default:
      return "no live handle";
  }
}

}  // namespace twin

// What a handle of this process is, NONE for any other address. C signatures are unchecked: a caller that leaves out
// an argument, or passes them in another order, is found by this only.
extern "C" twin::HandleKind twinHandleKind(const void* address);
