#include "aclnn/arguments.h"

#include <c10/util/Exception.h>

#include "aclnn/libraries.h"
#include "torch_npu/csrc/core/NPUStorageImpl.h"

namespace gr_ops::aclnn {
namespace {

using CreateTensor = aclTensor* (*)(const int64_t* sizes, uint64_t dims, aclDataType dtype, const int64_t* strides,
                                    int64_t offset, aclFormat format, const int64_t* storage_sizes,
                                    uint64_t storage_dims, void* data);
using CreateTensorList = aclTensorList* (*)(const aclTensor* const* tensors, uint64_t count);
using CreateIntArray = aclIntArray* (*)(const int64_t* values, uint64_t count);

// Resolved together on first use, before any handle can need its destroy function.
struct HandleFunctions {
  CreateTensor create_tensor = require_function<CreateTensor>("aclCreateTensor");
  CreateTensorList create_list = require_function<CreateTensorList>("aclCreateTensorList");
  CreateIntArray create_array = require_function<CreateIntArray>("aclCreateIntArray");
  int (*destroy_tensor)(const aclTensor*) = require_function<int (*)(const aclTensor*)>("aclDestroyTensor");
  int (*destroy_list)(const aclTensorList*) = require_function<int (*)(const aclTensorList*)>("aclDestroyTensorList");
  int (*destroy_array)(const aclIntArray*) = require_function<int (*)(const aclIntArray*)>("aclDestroyIntArray");
};

const HandleFunctions& functions() {
  static const HandleFunctions table;
  return table;
}

aclDataType to_acl(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ACL_FLOAT;
    case at::kHalf:
      return ACL_FLOAT16;
    case at::kBFloat16:
      return ACL_BF16;
    case at::kDouble:
      return ACL_DOUBLE;
    case at::kBool:
      return ACL_BOOL;
    case at::kByte:
      return ACL_UINT8;
    case at::kChar:
      return ACL_INT8;
    case at::kShort:
      return ACL_INT16;
    case at::kInt:
      return ACL_INT32;
    case at::kLong:
      return ACL_INT64;
    case at::kComplexFloat:
      return ACL_COMPLEX64;
    case at::kComplexDouble:
      return ACL_COMPLEX128;
    default:
      TORCH_CHECK(false, "an aclnn operator cannot take a tensor of dtype ", dtype);
  }
}

bool is_base_format(aclFormat format) {
  switch (format) {
    case ACL_FORMAT_UNDEFINED:
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_NCL:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NDHWC:
      return true;
    default:
      return false;
  }
}

aclFormat base_format(int64_t dims) {
  switch (dims) {
    case 3:
      return ACL_FORMAT_NCL;
    case 4:
      return ACL_FORMAT_NCHW;
    case 5:
      return ACL_FORMAT_NCDHW;
    default:
      return ACL_FORMAT_ND;
  }
}

std::unique_ptr<const aclTensor, DestroyHandle> make_tensor(const at::Tensor& tensor, at::ScalarType dtype) {
  TORCH_CHECK(tensor.device().is_privateuseone(), "an aclnn operator expects all tensors on the NPU, got one on ",
              tensor.device());
  const auto* storage = static_cast<torch_npu::NPUStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
  const torch_npu::NPUStorageDesc& description = storage->npu_desc_;
  c10::SmallVector<int64_t, 5> storage_sizes;
  aclFormat format = base_format(tensor.dim());
  if (is_base_format(description.npu_format_)) {
    storage_sizes.push_back(static_cast<int64_t>(storage->nbytes() / tensor.itemsize()));
  } else {
    format = description.npu_format_;
    storage_sizes = description.storage_sizes_;
  }
  const aclTensor* handle = functions().create_tensor(
      tensor.sizes().data(), static_cast<uint64_t>(tensor.dim()), to_acl(dtype), tensor.strides().data(),
      tensor.storage_offset(), format, storage_sizes.data(), storage_sizes.size(), const_cast<void*>(storage->data()));
  TORCH_CHECK(handle != nullptr, "aclCreateTensor failed for shape ", tensor.sizes(), " of ", tensor.scalar_type());
  return std::unique_ptr<const aclTensor, DestroyHandle>(handle);
}

}  // namespace

void DestroyHandle::operator()(const aclTensor* tensor) const { functions().destroy_tensor(tensor); }
void DestroyHandle::operator()(const aclTensorList* list) const { functions().destroy_list(list); }
void DestroyHandle::operator()(const aclIntArray* array) const { functions().destroy_array(array); }

const aclTensor* Arguments::tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  return tensor_as(tensor, tensor.scalar_type());
}

const aclTensor* Arguments::tensor_as(const at::Tensor& tensor, at::ScalarType dtype) {
  tensors_.push_back(make_tensor(tensor, dtype));
  return tensors_.back().get();
}

const aclTensorList* Arguments::tensor_list(at::TensorList tensors) {
  std::vector<Owned<aclTensor>> members;
  std::vector<const aclTensor*> pointers;
  for (const at::Tensor& tensor : tensors) {
    members.push_back(make_tensor(tensor, tensor.scalar_type()));
    pointers.push_back(members.back().get());
  }
  const aclTensorList* list = functions().create_list(pointers.data(), pointers.size());
  TORCH_CHECK(list != nullptr, "aclCreateTensorList failed for ", pointers.size(), " tensors");
  for (auto& member : members) member.release();  // a list destroys its members
  lists_.emplace_back(list);
  return list;
}

const aclIntArray* Arguments::int_array(at::IntArrayRef values) {
  const aclIntArray* array = functions().create_array(values.data(), values.size());
  TORCH_CHECK(array != nullptr, "aclCreateIntArray failed for ", values.size(), " values");
  arrays_.emplace_back(array);
  return array;
}

}  // namespace gr_ops::aclnn
