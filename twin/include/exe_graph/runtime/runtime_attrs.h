// gert::RuntimeAttrs: attribute values in declaration order. C++11, as all that op_host includes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gert {

// Values of a list attribute; their type is the reader's to know.
class ContinuousVector {
 public:
  ContinuousVector(const void* data, std::size_t size) : data_(data), size_(size) {}
  std::size_t GetSize() const { return size_; }
  const void* GetData() const { return data_; }

 private:
  const void* data_;
  std::size_t size_;
};

template <typename T>
class TypedContinuousVector {
 public:
  TypedContinuousVector() = default;
  explicit TypedContinuousVector(std::vector<T> values) : values_(std::move(values)) {}
  std::size_t GetSize() const { return values_.size(); }
  const T* GetData() const { return values_.data(); }
  const ContinuousVector* Untyped() const {
    untyped_ = ContinuousVector(values_.data(), values_.size());
    return &untyped_;
  }

 private:
  std::vector<T> values_;
  mutable ContinuousVector untyped_{nullptr, 0};
};

class RuntimeAttrs {
 public:
  // One attribute; the member of its kind is in use, the others are empty.
  class Value {
   public:
    explicit Value(bool value) : kind_(Kind::BOOL), bool_(value) {}
    explicit Value(int64_t value) : kind_(Kind::INT), int_(value) {}
    explicit Value(float value) : kind_(Kind::FLOAT), float_(value) {}
    explicit Value(std::string value) : kind_(Kind::STRING), string_(std::move(value)) {}
    explicit Value(std::vector<uint8_t> values) : kind_(Kind::BYTES), bytes_(std::move(values)) {}
    explicit Value(TypedContinuousVector<int64_t> values) : kind_(Kind::INTS), ints_(std::move(values)) {}
    explicit Value(TypedContinuousVector<float> values) : kind_(Kind::FLOATS), floats_(std::move(values)) {}

    const bool* Bool() const { return kind_ == Kind::BOOL ? &bool_ : nullptr; }
    const int64_t* Int() const { return kind_ == Kind::INT ? &int_ : nullptr; }
    const float* Float() const { return kind_ == Kind::FLOAT ? &float_ : nullptr; }
    const char* String() const { return kind_ == Kind::STRING ? string_.c_str() : nullptr; }
    const TypedContinuousVector<int64_t>* Ints() const { return kind_ == Kind::INTS ? &ints_ : nullptr; }
    const TypedContinuousVector<float>* Floats() const { return kind_ == Kind::FLOATS ? &floats_ : nullptr; }

   private:
    enum class Kind { BOOL, INT, FLOAT, STRING, BYTES, INTS, FLOATS };
    Kind kind_;
    bool bool_ = false;
    int64_t int_ = 0;
    float float_ = 0.0f;
    std::string string_;
    std::vector<uint8_t> bytes_;
    TypedContinuousVector<int64_t> ints_;
    TypedContinuousVector<float> floats_;
  };

  explicit RuntimeAttrs(std::vector<Value> values = {}) : values_(std::move(values)) {}
  std::size_t GetAttrNum() const { return values_.size(); }
  const int64_t* GetInt(std::size_t i) const { return i < values_.size() ? values_[i].Int() : nullptr; }
  const float* GetFloat(std::size_t i) const { return i < values_.size() ? values_[i].Float() : nullptr; }
  const bool* GetBool(std::size_t i) const { return i < values_.size() ? values_[i].Bool() : nullptr; }
  const char* GetStr(std::size_t i) const { return i < values_.size() ? values_[i].String() : nullptr; }
  const TypedContinuousVector<int64_t>* GetListInt(std::size_t i) const {
    return i < values_.size() ? values_[i].Ints() : nullptr;
  }
  const TypedContinuousVector<float>* GetListFloat(std::size_t i) const {
    return i < values_.size() ? values_[i].Floats() : nullptr;
  }
  template <typename T>
  const T* GetAttrPointer(std::size_t i) const {
    return Pointer(i, static_cast<const T*>(nullptr));
  }

 private:
  const bool* Pointer(std::size_t i, const bool*) const { return GetBool(i); }
  const float* Pointer(std::size_t i, const float*) const { return GetFloat(i); }
  const char* Pointer(std::size_t i, const char*) const { return GetStr(i); }
  const TypedContinuousVector<int64_t>* Pointer(std::size_t i, const TypedContinuousVector<int64_t>*) const {
    return GetListInt(i);
  }
  const TypedContinuousVector<float>* Pointer(std::size_t i, const TypedContinuousVector<float>*) const {
    return GetListFloat(i);
  }
  const ContinuousVector* Pointer(std::size_t i, const ContinuousVector*) const {
    const auto* ints = GetListInt(i);
    const auto* floats = GetListFloat(i);
    return ints != nullptr ? ints->Untyped() : floats != nullptr ? floats->Untyped() : nullptr;
  }
  // An Int attribute is 8 bytes, least first: a narrower integer is read from their front, as on the device's host.
  template <typename T>
  const T* Pointer(std::size_t i, const T*) const {
    static_assert(std::is_integral<T>::value && sizeof(T) <= sizeof(int64_t), "no attribute is of this type");
    return reinterpret_cast<const T*>(GetInt(i));
  }
  std::vector<Value> values_;
};

}  // namespace gert
