#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <type_traits>

namespace gr_ops {

template <typename T>
constexpr bool kHalfWidth = std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>;

// What sums of T are kept in: float for the 16-bit types, T itself for the others.
template <typename T>
using Wide = std::conditional_t<kHalfWidth<T>, float, T>;

}  // namespace gr_ops
