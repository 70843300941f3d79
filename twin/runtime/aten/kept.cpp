#include "kept.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace twin {
namespace {

constexpr std::string_view KEPT[] = {
    // allocation
    "empty",
    "empty_strided",
    "empty_like",
    "new_empty",
    "new_empty_strided",
    "empty_with_format",
    "resize",
    "resize_",
    "resize_as_",
    "_resize_output",
    "_resize_output_",
    "set",
    "set_",
    // metadata
    "as_strided",
    "as_strided_",
    "view",
    "_reshape_alias",
    "_unsafe_view",
    "unfold",
    "alias",
    "detach",
    "detach_",
    "is_set_to",
    "view_as_real",
    "view_as_complex",
    "_has_compatible_shallow_copy_type",
    // copies and host values
    "copy_",
    "_copy_from",
    "_copy_from_and_resize",
    "_to_copy",
    "to",
    "npu_dtype_cast",
    "_local_scalar_dense",
    "item",
    // pinned memory and streams
    "is_pinned",
    "_pin_memory",
    "pin_memory",
    "record_stream",
};

}  // namespace

bool IsKept(const std::string& name) { return std::find(std::begin(KEPT), std::end(KEPT), name) != std::end(KEPT); }

}  // namespace twin
