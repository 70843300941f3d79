// Operators that stay torch_npu's own: allocation, metadata, copies between devices.
#pragma once
#include <string>

namespace twin {

// `name` without namespace and overload, e.g. "copy_".
bool IsKept(const std::string& name);

}  // namespace twin
