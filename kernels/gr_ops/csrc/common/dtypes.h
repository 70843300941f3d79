#pragma once

#include <c10/core/ScalarType.h>

namespace gr_ops {

// The dtypes that operators move without looking at the values.
bool is_movable(at::ScalarType dtype);

constexpr const char* kMovableDtypes =
    "float16, bfloat16, float32, float64, bool, int8, uint8, int16, int32, int64, complex64";

// "int32" for at::kInt, and so on, as messages name them.
const char* integer_name(at::ScalarType dtype);

}  // namespace gr_ops
