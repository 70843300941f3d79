// ListTensorDesc: the descriptor list behind a DYNAMIC input or output.
#pragma once
#include "ascendc/tensor.h"

namespace AscendC {

template <typename T>
class TensorDesc {
 public:
  void SetShapeAddr(uint64_t* shape) { shape_ = shape; }
  uint64_t GetDim() const { return dim_; }
  uint64_t GetIndex() const { return index_; }
  uint64_t GetShape(uint32_t i) const { return shape_[i]; }
  __gm__ T* GetDataPtr() const { return data_; }
  GlobalTensor<T> GetDataObj() const {
    uint64_t size = 1;
    for (uint64_t i = 0; i < dim_; ++i) {
      size *= shape_[i];
    }
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(data_, size);
    return tensor;
  }
  void Fill(uint64_t dim, uint64_t index, const __gm__ uint64_t* dims, __gm__ T* data) {
    dim_ = dim;
    index_ = index;
    data_ = data;
    for (uint64_t i = 0; i < dim; ++i) {
      shape_[i] = dims[i];
    }
  }

 private:
  uint64_t* shape_ = nullptr;
  uint64_t dim_ = 0;
  uint64_t index_ = 0;
  __gm__ T* data_ = nullptr;
};

class ListTensorDesc {
 public:
  ListTensorDesc() = default;
  explicit ListTensorDesc(__gm__ void* data, uint32_t length = 0xffffffff, uint32_t shapeSize = 0xffffffff) {
    Init(data, length, shapeSize);
  }
  void Init(__gm__ void* data, uint32_t = 0xffffffff, uint32_t = 0xffffffff) {
    words_ = static_cast<const __gm__ uint64_t*>(data);
    pointers_ = words_ + words_[0] / sizeof(uint64_t);
    dims_ = words_[1] & 0xffffffffu;
    size_ = static_cast<uint32_t>(words_[1] >> 32);
    if (size_ == 0) {
      const uint64_t records = static_cast<uint64_t>(pointers_ - words_ - 1) / (1 + dims_);
      size_ = static_cast<uint32_t>(words_[1 + (records - 1) * (1 + dims_)] >> 32) + 1;
    }
  }
  uint32_t GetSize() const { return size_; }
  template <typename T>
  __gm__ T* GetDataPtr(uint32_t index) const {
    CheckIndex(index);
    return reinterpret_cast<__gm__ T*>(pointers_[index]);
  }
  template <typename T>
  void GetDesc(TensorDesc<T>& desc, uint32_t index) const {
    CheckIndex(index);
    const __gm__ uint64_t* record = words_ + 1 + index * (1 + dims_);
    desc.Fill(dims_, index, record + 1, GetDataPtr<T>(index));
  }

 private:
  void CheckIndex(uint32_t index) const {
    if (index >= size_) {
      twin::Core::Current().Trap("E-17", "tensor %u of a list of %u", index, size_);
    }
  }
  const __gm__ uint64_t* words_ = nullptr;
  const __gm__ uint64_t* pointers_ = nullptr;
  uint64_t dims_ = 0;
  uint32_t size_ = 0;
};

}  // namespace AscendC
