// gert::RuntimeAttrs: attribute values in declaration order (C.3).
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace gert {

template <typename T>
class TypedContinuousVector {
public:
    TypedContinuousVector() = default;
    explicit TypedContinuousVector(std::vector<T> values) : values_(std::move(values)) {}
    std::size_t GetSize() const { return values_.size(); }
    const T *GetData() const { return values_.data(); }

private:
    std::vector<T> values_;
};

class RuntimeAttrs {
public:
    using Value = std::variant<bool, int64_t, float, std::string, std::vector<uint8_t>, TypedContinuousVector<int64_t>,
                               TypedContinuousVector<float>>;

    explicit RuntimeAttrs(std::vector<Value> values = {}) : values_(std::move(values)) {}
    std::size_t GetAttrNum() const { return values_.size(); }
    const int64_t *GetInt(std::size_t i) const { return Get<int64_t>(i); }
    const float *GetFloat(std::size_t i) const { return Get<float>(i); }
    const bool *GetBool(std::size_t i) const { return Get<bool>(i); }
    const char *GetStr(std::size_t i) const
    {
        const auto *text = Get<std::string>(i);
        return text == nullptr ? nullptr : text->c_str();
    }
    const TypedContinuousVector<int64_t> *GetListInt(std::size_t i) const
    {
        return Get<TypedContinuousVector<int64_t>>(i);
    }
    const TypedContinuousVector<float> *GetListFloat(std::size_t i) const { return Get<TypedContinuousVector<float>>(i); }
    template <typename T>
    const T *GetAttrPointer(std::size_t i) const
    {
        if constexpr (std::is_same<T, char>::value) {
            return GetStr(i);
        } else {
            return Get<T>(i);
        }
    }

private:
    template <typename T>
    const T *Get(std::size_t i) const
    {
        return i < values_.size() ? std::get_if<T>(&values_[i]) : nullptr;
    }
    std::vector<Value> values_;
};

}
