// aclTensor: a strided view of a storage.
#include <algorithm>
#include <cstdio>

#include "interface.h"
#include "live.h"

using namespace twin;

namespace {

std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= dims[axis];
  }
  return strides;
}

// The caller frees the copy with delete[].
aclnnStatus CopyOut(const char* refusal, const std::vector<int64_t>* from, int64_t** values, uint64_t* count) {
  if (from == nullptr || values == nullptr || count == nullptr) {
    return RefuseNull(refusal);
  }
  *count = from->size();
  *values = new int64_t[from->size()];
  std::copy(from->begin(), from->end(), *values);
  return kAclnnSuccess;
}

template <typename Field, typename Value>
aclnnStatus Read(const char* refusal, const aclTensor* tensor, Field aclTensor::* field, Value* out) {
  if (tensor == nullptr || out == nullptr) {
    return RefuseNull(refusal);
  }
  *out = tensor->*field;
  return kAclnnSuccess;
}

}  // namespace

extern "C" {

TWIN_API aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                    const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                                    uint64_t storageDimsNum, void* tensorData) {
  const bool missing = (viewDimsNum != 0 && viewDims == nullptr) || (storageDimsNum != 0 && storageDims == nullptr);
  if (missing || ElementSize(dataType) == 0 || offset < 0) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "[twin] aclCreateTensor(viewDimsNum=%llu, dataType=%d, offset=%lld): null dims, an unknown data "
                  "type or a negative offset",
                  static_cast<unsigned long long>(viewDimsNum), static_cast<int>(dataType),
                  static_cast<long long>(offset));
    twinSetErrorMessage(text);
    return nullptr;
  }
  auto* tensor = new aclTensor{};
  tensor->viewDims.assign(viewDims, viewDims + viewDimsNum);
  tensor->strides =
      stride == nullptr ? ContiguousStrides(tensor->viewDims) : std::vector<int64_t>(stride, stride + viewDimsNum);
  tensor->storageDims.assign(storageDims, storageDims + storageDimsNum);
  tensor->offset = offset;
  tensor->dataType = dataType;
  tensor->format = format;
  tensor->data = tensorData;
  return Enlisted(tensor);
}

TWIN_API int aclDestroyTensor(const aclTensor* tensor) { return DestroyHandle(tensor); }

TWIN_API int aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return CopyOut("[twin] aclGetViewShape: null", tensor == nullptr ? nullptr : &tensor->viewDims, viewDims,
                 viewDimsNum);
}

TWIN_API int aclGetViewStrides(const aclTensor* tensor, int64_t** strides, uint64_t* stridesNum) {
  return CopyOut("[twin] aclGetViewStrides: null", tensor == nullptr ? nullptr : &tensor->strides, strides, stridesNum);
}

TWIN_API int aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  return CopyOut("[twin] aclGetStorageShape: null", tensor == nullptr ? nullptr : &tensor->storageDims, storageDims,
                 storageDimsNum);
}

TWIN_API int aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return Read("[twin] aclGetViewOffset: null", tensor, &aclTensor::offset, offset);
}

TWIN_API int aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return Read("[twin] aclGetDataType: null", tensor, &aclTensor::dataType, dataType);
}

TWIN_API int aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return Read("[twin] aclGetFormat: null", tensor, &aclTensor::format, format);
}

TWIN_API int aclGetRawTensorAddr(const aclTensor* tensor, void** address) {
  return Read("[twin] aclGetRawTensorAddr: null", tensor, &aclTensor::data, address);
}
}
