#pragma once
#include <cstdint>
#include <set>

namespace twin {

// Empty when the object tests no key: it then serves every key.
const std::set<uint64_t>& TilingKeys(int object);

// The kernel type that the object declares for the key (KernelMetaType), or that its Matmul objects say; -1 without.
int TaskType(int object, uint64_t key);

}  // namespace twin
