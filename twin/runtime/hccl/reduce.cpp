#include "reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "call.h"
#include "failure.h"
#include "twin/float16.h"

namespace twin::hccl {
namespace {
// In which type a stored type is accumulated.
template <typename Stored>
struct Arithmetic {
  using Type = Stored;
  static Type Load(Stored value) { return value; }
  static Stored Store(Type value) { return value; }
};
template <typename Stored>
struct Conversion {
  using Type = float;
  static Type Load(Stored value) { return Stored::ToFloat(value); }
  static Stored Store(Type value) { return Stored::FromFloat(value); }
};
template <>
struct Arithmetic<Half> : Conversion<Half> {};
template <>
struct Arithmetic<BFloat16> : Conversion<BFloat16> {};

// Integers wrap, as unsigned arithmetic defines it; the low bits are right for signed types too.
struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
};
struct Product {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
// a != a: the accumulated value is a NaN and stays. A NaN in b fails both comparisons and is taken.
struct Maximum {
  template <typename T>
  T operator()(T a, T b) const {
    return a != a || a >= b ? a : b;
  }
};
struct Minimum {
  template <typename T>
  T operator()(T a, T b) const {
    return a != a || a <= b ? a : b;
  }
};

template <typename Stored, typename Combine>
void ReduceAs(const std::vector<const void*>& inputs, void* out, uint64_t count) {
  using Rule = Arithmetic<Stored>;
  constexpr std::size_t kBlock = 1024;
  std::array<typename Rule::Type, kBlock> total;
  const Combine combine;
  for (uint64_t start = 0; start < count; start += kBlock) {
    const std::size_t length = std::min<uint64_t>(kBlock, count - start);
    const auto* first = static_cast<const Stored*>(inputs.front()) + start;
    for (std::size_t i = 0; i < length; ++i) {
      total[i] = Rule::Load(first[i]);
    }
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      const auto* next = static_cast<const Stored*>(inputs[rank]) + start;
      for (std::size_t i = 0; i < length; ++i) {
        total[i] = combine(total[i], Rule::Load(next[i]));
      }
    }
    auto* result = static_cast<Stored*>(out) + start;
    for (std::size_t i = 0; i < length; ++i) {
      result[i] = Rule::Store(total[i]);
    }
  }
}

template <typename Stored>
void ReduceBy(HcclReduceOp reduction, const std::vector<const void*>& inputs, void* out, uint64_t count) {
  switch (reduction) {
    case HCCL_REDUCE_SUM:
      return ReduceAs<Stored, Sum>(inputs, out, count);
    case HCCL_REDUCE_PROD:
      return ReduceAs<Stored, Product>(inputs, out, count);
    case HCCL_REDUCE_MAX:
      return ReduceAs<Stored, Maximum>(inputs, out, count);
    case HCCL_REDUCE_MIN:
      return ReduceAs<Stored, Minimum>(inputs, out, count);
    default:
      throw Failure(HCCL_E_PARA, "reduction " + std::to_string(reduction) + " is unknown");
  }
}
}  // namespace

bool Reduces(HcclDataType dataType, HcclReduceOp reduction) {
  switch (dataType) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_FP32:
      return true;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_BFP16:
      return reduction != HCCL_REDUCE_PROD;
    default:
      return false;
  }
}

void Reduce(HcclDataType dataType, HcclReduceOp reduction, const std::vector<const void*>& inputs, void* out,
            uint64_t count) {
  if (inputs.size() == 1) {
    if (count > 0 && out != inputs.front()) {
      std::memmove(out, inputs.front(), count * ItemSize(dataType));
    }
    return;
  }
  switch (dataType) {
    case HCCL_DATA_TYPE_INT8:
      return ReduceBy<int8_t>(reduction, inputs, out, count);
    case HCCL_DATA_TYPE_INT16:
      return ReduceBy<int16_t>(reduction, inputs, out, count);
    case HCCL_DATA_TYPE_INT32:
      return ReduceBy<int32_t>(reduction, inputs, out, count);
    case HCCL_DATA_TYPE_FP16:
      return ReduceBy<Half>(reduction, inputs, out, count);
    case HCCL_DATA_TYPE_FP32:
      return ReduceBy<float>(reduction, inputs, out, count);
    case HCCL_DATA_TYPE_INT64:
      return ReduceBy<int64_t>(reduction, inputs, out, count);
    case HCCL_DATA_TYPE_BFP16:
      return ReduceBy<BFloat16>(reduction, inputs, out, count);
    default:
      throw Failure(HCCL_E_NOT_SUPPORT, std::string(Name(dataType)) + " is not reduced");
  }
}
}  // namespace twin::hccl
