// aclIntArray, aclFloatArray, aclBoolArray: copies of the caller's values.
#include "interface.h"
#include "live.h"

using namespace twin;

namespace {

template <typename Array, typename Element>
Array* Create(const char* refusal, const Element* values, uint64_t size) {
  if (values == nullptr && size != 0) {
    twinSetErrorMessage(refusal);
    return nullptr;
  }
  auto* array = new Array{};
  array->values.assign(values, values + size);
  return Enlisted(array);
}

template <typename Array>
int Size(const char* refusal, const Array* array, uint64_t* size) {
  if (array == nullptr || size == nullptr) {
    return RefuseNull(refusal);
  }
  *size = array->values.size();
  return kAclnnSuccess;
}

}  // namespace

extern "C" {

TWIN_API aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return Create<aclIntArray>("[twin] aclCreateIntArray: null", value, size);
}

TWIN_API aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return Create<aclFloatArray>("[twin] aclCreateFloatArray: null", value, size);
}

TWIN_API aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return Create<aclBoolArray>("[twin] aclCreateBoolArray: null", value, size);
}

TWIN_API int aclDestroyIntArray(const aclIntArray* array) { return DestroyHandle(array); }
TWIN_API int aclDestroyFloatArray(const aclFloatArray* array) { return DestroyHandle(array); }
TWIN_API int aclDestroyBoolArray(const aclBoolArray* array) { return DestroyHandle(array); }

TWIN_API int aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return Size("[twin] aclGetIntArraySize: null", array, size);
}

TWIN_API int aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return Size("[twin] aclGetFloatArraySize: null", array, size);
}

TWIN_API int aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return Size("[twin] aclGetBoolArraySize: null", array, size);
}
}
