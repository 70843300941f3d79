// Scalars of an aclnn call as the bytes of the data type that a kernel reads.
#pragma once
#include <vector>

#include "graph/types.h"
#include "twin/handles.h"

namespace twin {

// False for a pair of types that does not convert.
bool AppendScalar(const aclScalar& scalar, ge::DataType type, std::vector<unsigned char>& bytes);

}  // namespace twin
