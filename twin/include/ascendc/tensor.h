// GlobalTensor and LocalTensor.
#pragma once
#include <utility>

#include "ascendc/types.h"

namespace AscendC {

namespace twin_detail {

// What tensor(i) gives: the element, read where a value is wanted and written by an assignment. One that `auto` keeps
// holds the value of then, as a copy of what a reference names does.
template <typename Tensor>
class Element {
 public:
  using Value = typename Tensor::PrimType;

  Element(const Tensor& tensor, uint64_t index) : tensor_(tensor), index_(index), value_(tensor.Peek(index)) {}
  Element(const Element&) = default;

  operator Value() && { return tensor_.GetValue(index_); }
  operator Value() const& {
    tensor_.GetValue(index_);  // for its checks
    return value_;
  }
  Element& operator=(Value value) {
    tensor_.SetValue(index_, value);
    return *this;
  }
  Element& operator=(const Element& other) { return *this = static_cast<Value>(other); }
  Element& operator+=(Value value) { return *this = static_cast<Value>(static_cast<Value>(*this) + value); }
  Element& operator-=(Value value) { return *this = static_cast<Value>(static_cast<Value>(*this) - value); }
  Element& operator*=(Value value) { return *this = static_cast<Value>(static_cast<Value>(*this) * value); }
  Element& operator/=(Value value) { return *this = static_cast<Value>(static_cast<Value>(*this) / value); }

 private:
  Tensor tensor_;
  uint64_t index_;
  Value value_;
};

}  // namespace twin_detail

template <typename T>
class GlobalTensor {
 public:
  using PrimType = T;

  void SetGlobalBuffer(__gm__ T* buffer, uint64_t bufferSize) {
    buffer_ = buffer;
    size_ = bufferSize;
    bounded_ = true;
  }
  void SetGlobalBuffer(__gm__ T* buffer) {
    buffer_ = buffer;
    size_ = 0;
    bounded_ = false;
  }
  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor view = *this;
    view.buffer_ = buffer_ + offset;
    view.skipped_ = skipped_ + offset;
    return view;
  }
  const __gm__ T* GetPhyAddr() const { return buffer_; }
  __gm__ T* GetPhyAddr(uint64_t offset) const { return buffer_ + offset; }
  T GetValue(uint64_t offset) const {
    Check(offset * sizeof(T), sizeof(T));
    T value;
    twin::Core::Current().ScalarLoad(buffer_ + offset, &value, sizeof(T));
    return value;
  }
  void SetValue(uint64_t offset, T value) {
    Check(offset * sizeof(T), sizeof(T));
    twin::Core::Current().ScalarStore(buffer_ + offset, &value, sizeof(T));
  }
#ifdef TWIN_ADDRESS_SPACES
  T& operator()(uint64_t offset) const;  // clang's pass runs nothing, and combines no halves through a conversion
#else
  twin_detail::Element<GlobalTensor> operator()(uint64_t offset) const { return {*this, offset}; }
#endif
  // What is there, without an access by the kernel.
  T Peek(uint64_t offset) const {
    T value{};
    twin::Core::Current().GmPeek(buffer_ + offset, &value, sizeof(T));
    return value;
  }
  uint64_t GetSize() const { return bounded_ ? size_ : 0; }
  template <CacheRwMode rw = CacheRwMode::RW>
  void SetL2CacheHint(CacheMode) {}

  // The bound given to SetGlobalBuffer; the engine checks the allocation itself. Bytes from this view's start.
  void Check(uint64_t offset, uint64_t bytes) const {
    if (bounded_ && !twin::Core::Current().Lenient() &&
        (skipped_ > size_ || offset + bytes > (size_ - skipped_) * sizeof(T))) {
      twin::Core::Current().Trap("E-17", "access to bytes [%llu, %llu) of a GlobalTensor of %llu elements of %zu bytes",
                                 static_cast<unsigned long long>(skipped_ * sizeof(T) + offset),
                                 static_cast<unsigned long long>(skipped_ * sizeof(T) + offset + bytes),
                                 static_cast<unsigned long long>(size_), sizeof(T));
    }
  }

 private:
  __gm__ T* buffer_ = nullptr;
  uint64_t size_ = 0;
  uint64_t skipped_ = 0;
  bool bounded_ = false;
};

template <typename T>
class LocalTensor {
 public:
  using PrimType = T;

  LocalTensor() = default;
  LocalTensor(const twin::UbRange& range, TPosition position) : range_(range), position_(position) {}
  // dst = a + b and its like (operators.h).
  template <typename Deferred,
            typename = decltype(std::declval<const Deferred&>().Into(std::declval<const LocalTensor&>()))>
  LocalTensor& operator=(const Deferred& deferred) {
    deferred.Into(*this);
    return *this;
  }

  LocalTensor operator[](uint32_t offset) const {
    LocalTensor view = *this;
    const uint64_t bytes = static_cast<uint64_t>(offset) * sizeof(T);
    if (bytes > range_.bytes) {
      twin::Core::Current().Trap("E-36", "offset %u is outside a LocalTensor of %u elements", offset, GetSize());
    }
    view.range_.address += static_cast<uint32_t>(bytes);
    view.range_.bytes -= static_cast<uint32_t>(bytes);
    return view;
  }
  T GetValue(uint32_t index) const {
    T value;
    twin::Core::Current().UbLoad(range_, index, &value, sizeof(T));
    return value;
  }
  template <typename S>
  void SetValue(uint32_t index, S value) const {
    const T converted = static_cast<T>(value);
    twin::Core::Current().UbStore(range_, index, &converted, sizeof(T));
  }
#ifdef TWIN_ADDRESS_SPACES
  T& operator()(uint32_t index) const;
#else
  twin_detail::Element<LocalTensor> operator()(uint32_t index) const { return {*this, index}; }
#endif
  T Peek(uint32_t index) const {
    T value{};
    twin::Core::Current().UbPeek(range_, index, &value, sizeof(T));
    return value;
  }
  uint32_t GetSize() const { return range_.bytes / static_cast<uint32_t>(sizeof(T)); }
  void SetSize(uint32_t count) { range_.bytes = count * static_cast<uint32_t>(sizeof(T)); }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    return LocalTensor<U>(range_, position_);
  }
  uint64_t GetPhyAddr() const { return range_.address; }
  uint64_t GetPhyAddr(uint32_t offset) const { return range_.address + static_cast<uint64_t>(offset) * sizeof(T); }
  int32_t GetPosition() const { return static_cast<int32_t>(position_); }
  void SetUserTag(TTagType tag) { tag_ = tag; }
  TTagType GetUserTag() const { return tag_; }

  const twin::UbRange& Range() const { return range_; }

 private:
  twin::UbRange range_;
  TPosition position_ = TPosition::VECCALC;
  TTagType tag_ = 0;
};

}  // namespace AscendC
