// aclScalar: one value with its type, and the widths of the types.
#include <cstring>

#include "interface.h"
#include "live.h"

namespace twin {

std::size_t ElementSize(aclDataType type) {
  switch (type) {
    case ACL_COMPLEX128:
      return 16;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64:
      return 8;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_INT4:
    case ACL_UINT1:
      return 1;
    default:
      return 0;
  }
}

}  // namespace twin

extern "C" {

TWIN_API aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  const std::size_t size = twin::ElementSize(dataType);
  if (value == nullptr || size == 0) {
    twinSetErrorMessage("[twin] aclCreateScalar: null value or unknown data type");
    return nullptr;
  }
  auto* scalar = new aclScalar{};
  scalar->dataType = dataType;
  std::memcpy(scalar->value, value, size);
  return twin::Enlisted(scalar);
}

TWIN_API int aclDestroyScalar(const aclScalar* scalar) { return twin::DestroyHandle(scalar); }
}
