// gert::Tensor and the description of a tensor at tiling time.
#pragma once
#include "exe_graph/runtime/storage_shape.h"
#include "graph/types.h"

namespace gert {

class CompileTimeTensorDesc {
 public:
  CompileTimeTensorDesc() = default;
  CompileTimeTensorDesc(ge::DataType type, ge::Format format) : type_(type), format_(format) {}
  ge::DataType GetDataType() const { return type_; }
  ge::Format GetOriginFormat() const { return format_; }
  ge::Format GetStorageFormat() const { return format_; }
  ge::Format GetFormat() const { return format_; }

 private:
  ge::DataType type_ = ge::DT_UNDEFINED;
  ge::Format format_ = ge::FORMAT_ND;
};

// `data` is set only for inputs declared with ValueDepend, or registered by InputsDataDependency.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const StorageShape& shape, ge::DataType type, ge::Format format, const void* data)
      : shape_(shape), desc_(type, format), data_(data) {}
  const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
  const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
  const StorageShape& GetShape() const { return shape_; }
  ge::Format GetOriginFormat() const { return desc_.GetOriginFormat(); }
  ge::Format GetStorageFormat() const { return desc_.GetStorageFormat(); }
  int64_t GetShapeSize() const { return shape_.GetStorageShape().GetShapeSize(); }
  ge::DataType GetDataType() const { return desc_.GetDataType(); }
  template <typename T>
  const T* GetData() const {
    asked_ = true;
    return static_cast<const T*>(data_);
  }

  // Were values asked for that are not known on the host?
  bool MissedData() const { return asked_ && data_ == nullptr && GetShapeSize() != 0; }
  const StorageShape& Shapes() const { return shape_; }
  const CompileTimeTensorDesc& Desc() const { return desc_; }

 private:
  StorageShape shape_;
  CompileTimeTensorDesc desc_;
  const void* data_ = nullptr;
  mutable bool asked_ = false;
};

}  // namespace gert
