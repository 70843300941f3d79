// Operators of LocalTensor: dst = a + b and its like work on all elements of dst.
#pragma once
#include "ascendc/select.h"
#include "ascendc/vector.h"

namespace AscendC {
namespace twin_detail {

#define TWIN_OPERATOR(SYMBOL, NAME)                                                                      \
  template <typename T>                                                                                  \
  struct Deferred##NAME {                                                                                \
    void Into(const LocalTensor<T>& dst) const { NAME(dst, a, b, static_cast<int32_t>(dst.GetSize())); } \
    LocalTensor<T> a;                                                                                    \
    LocalTensor<T> b;                                                                                    \
  };

#define TWIN_OPERATORS(X) X(+, Add) X(-, Sub) X(*, Mul) X(/, Div) X(&, And) X(|, Or)
TWIN_OPERATORS(TWIN_OPERATOR)
#undef TWIN_OPERATOR

template <typename T, CMPMODE mode>
struct DeferredCompare {
  template <typename U>
  void Into(const LocalTensor<U>& dst) const {
    Compare(dst, a, b, mode, a.GetSize());
  }
  LocalTensor<T> a;
  LocalTensor<T> b;
};

}  // namespace twin_detail

#define TWIN_OPERATOR(SYMBOL, NAME)                                                                  \
  template <typename T>                                                                              \
  twin_detail::Deferred##NAME<T> operator SYMBOL(const LocalTensor<T>& a, const LocalTensor<T>& b) { \
    return {a, b};                                                                                   \
  }
TWIN_OPERATORS(TWIN_OPERATOR)
#undef TWIN_OPERATOR
#undef TWIN_OPERATORS

#define TWIN_COMPARISON(SYMBOL, MODE)                                                                                \
  template <typename T>                                                                                              \
  twin_detail::DeferredCompare<T, CMPMODE::MODE> operator SYMBOL(const LocalTensor<T>& a, const LocalTensor<T>& b) { \
    return {a, b};                                                                                                   \
  }
TWIN_COMPARISON(<, LT)
TWIN_COMPARISON(>, GT)
TWIN_COMPARISON(==, EQ)
TWIN_COMPARISON(<=, LE)
TWIN_COMPARISON(>=, GE)
TWIN_COMPARISON(!=, NE)
#undef TWIN_COMPARISON

}  // namespace AscendC
