// gert::Shape and StorageShape.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gert {

class Shape {
 public:
  static constexpr std::size_t kMaxDimNum = 25;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    for (const auto dim : dims) {
      AppendDim(dim);
    }
  }
  std::size_t GetDimNum() const { return count_; }
  int64_t GetDim(std::size_t i) const { return i < count_ ? dims_[i] : -1; }
  void SetDim(std::size_t i, int64_t value) {
    if (i < count_) {
      dims_[i] = value;
    }
  }
  void SetDimNum(std::size_t count) { count_ = count <= kMaxDimNum ? count : kMaxDimNum; }
  Shape& AppendDim(int64_t value) {
    if (count_ < kMaxDimNum) {
      dims_[count_++] = value;
    }
    return *this;
  }
  int64_t GetShapeSize() const {
    int64_t size = 1;
    for (std::size_t i = 0; i < count_; ++i) {
      size *= dims_[i];
    }
    return size;
  }
  void SetScalar() { count_ = 0; }
  bool IsScalar() const { return count_ == 0; }
  int64_t operator[](std::size_t i) const { return dims_[i]; }
  int64_t& operator[](std::size_t i) { return dims_[i]; }
  bool operator==(const Shape& other) const {
    bool same = count_ == other.count_;
    for (std::size_t i = 0; same && i < count_; ++i) {
      same = dims_[i] == other.dims_[i];
    }
    return same;
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }

 private:
  std::size_t count_ = 0;
  int64_t dims_[kMaxDimNum] = {};
};

}  // namespace gert
