// ge::Shape, as the host's functions for library scratch take it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ge {

class Shape {
 public:
  Shape() = default;
  explicit Shape(const std::vector<int64_t>& dims) : dims_(dims) {}
  std::size_t GetDimNum() const { return dims_.size(); }
  int64_t GetDim(std::size_t i) const { return i < dims_.size() ? dims_[i] : 0; }
  std::vector<int64_t> GetDims() const { return dims_; }
  bool SetDim(std::size_t i, int64_t value) {
    if (i >= dims_.size()) {
      return false;
    }
    dims_[i] = value;
    return true;
  }
  // Of no dimensions: 0.
  int64_t GetShapeSize() const {
    int64_t size = dims_.empty() ? 0 : 1;
    for (const int64_t dim : dims_) {
      size *= dim;
    }
    return size;
  }

 private:
  std::vector<int64_t> dims_;
};

}  // namespace ge
