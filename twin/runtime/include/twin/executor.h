// What libnnopbase offers to the libraries that hold aclnn operators.
#pragma once
#include <cstdint>

#include "twin/handles.h"

extern "C" {

// Phase two of every aclnn pair: enqueues the planned call on the stream and deletes the executor, whatever comes out.
aclnnStatus twinRunExecutor(aclOpExecutor* executor, void* workspace, uint64_t workspaceSize, aclrtStream stream);
}
