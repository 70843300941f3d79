/* Opaque handles of the two-phase operator calls. */
#ifndef TWIN_ACLNN_ACL_META_H_
#define TWIN_ACLNN_ACL_META_H_
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t aclnnStatus;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef struct aclOpExecutor aclOpExecutor;

#ifdef __cplusplus
}
#endif

#endif
