// aclTensorDesc and aclDataBuffer of the legacy path. torch_npu fills them before it asks for a legacy operator,
// which libacl_op_compiler then runs or refuses by name.
#include <string>
#include <vector>

#include "failure.h"
#include "twin/attribute.h"

using namespace twin;

struct aclTensorDesc {
  aclDataType type;
  aclFormat format;
  std::vector<int64_t> dims;    // in memory: of a private format those of its blocks
  std::vector<int64_t> origin;  // as PyTorch sees it
  std::string name;
  aclMemType placement = ACL_MEMTYPE_DEVICE;
};

struct aclDataBuffer {
  void* data;
  size_t size;
};

namespace {

aclError NullDescriptor(const char* function) { return Fail(ACL_ERROR_INVALID_PARAM, function, "(desc=null)"); }

bool ValidShape(int numDims, const int64_t* dims) { return numDims >= 0 && (numDims == 0 || dims != nullptr); }

}  // namespace

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format) {
  if (!ValidShape(numDims, dims)) {
    Fail(ACL_ERROR_INVALID_PARAM, __func__, "(numDims=%d, dims=%p)", numDims, static_cast<const void*>(dims));
    return nullptr;
  }
  const std::vector<int64_t> shape(dims, dims + numDims);
  return new aclTensorDesc{dataType, format, shape, shape, "", ACL_MEMTYPE_DEVICE};
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) { delete desc; }

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) { return new aclDataBuffer{data, size}; }

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  delete dataBuffer;
  return ACL_SUCCESS;
}

void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  return dataBuffer == nullptr ? nullptr : dataBuffer->data;
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) { return dataBuffer == nullptr ? 0 : dataBuffer->size; }

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  if (desc == nullptr || dimSize == nullptr || index >= desc->dims.size()) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(desc=%p, index=%zu, dimSize=%p): null or beyond the rank",
                static_cast<const void*>(desc), index, static_cast<void*>(dimSize));
  }
  *dimSize = desc->dims[index];
  return ACL_SUCCESS;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  return desc == nullptr ? ACL_FORMAT_UNDEFINED : desc->format;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) { return desc == nullptr ? 0 : desc->dims.size(); }

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) { return desc == nullptr ? ACL_DT_UNDEFINED : desc->type; }

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  if (desc != nullptr) {
    desc->name = name == nullptr ? "" : name;
  }
}

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  if (desc == nullptr) {
    return NullDescriptor(__func__);
  }
  desc->format = format;
  return ACL_SUCCESS;
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
  if (desc == nullptr) {
    return NullDescriptor(__func__);
  }
  desc->placement = memType;
  return ACL_SUCCESS;
}

aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  if (desc == nullptr || !ValidShape(numDims, dims)) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(desc=%p, numDims=%d, dims=%p)", static_cast<void*>(desc), numDims,
                static_cast<const void*>(dims));
  }
  desc->dims.assign(dims, dims + numDims);
  return ACL_SUCCESS;
}

extern "C" __attribute__((visibility("default"))) size_t twinTensorDescOrigin(const aclTensorDesc* desc,
                                                                              const int64_t** dims) {
  *dims = desc == nullptr ? nullptr : desc->origin.data();
  return desc == nullptr ? 0 : desc->origin.size();
}

extern "C" __attribute__((visibility("default"))) bool twinTensorDescOnHost(const aclTensorDesc* desc) {
  return desc != nullptr &&
         (desc->placement == ACL_MEMTYPE_HOST || desc->placement == ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT);
}
