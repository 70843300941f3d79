#pragma once

#include "acl/acl.h"

// The opaque handles of the aclnn protocol. The torch_npu wheel ships no header that declares them.
struct aclTensor;
struct aclTensorList;
struct aclIntArray;
struct aclOpExecutor;
