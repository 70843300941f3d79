// aclopCompileAndExecute: refused by name. torch_npu comes here exactly when a function of an aclnn pair is missing,
// so the name tells what the twin lacks.
#include "acl/acl_op_compiler.h"
#include "refusal.h"

using namespace twin;

namespace {

aclError RefuseOperator(const char *function, const char *opType)
{
    const char *name = opType == nullptr ? "null" : opType;
    const aclError code =
        Refuse(ACL_ERROR_INTERNAL_ERROR,
               "[twin] %s(opType=%s): the legacy operator is not emulated; torch_npu asks for it when the aclnn "
               "function of the operator is missing",
               function, name);
    aclAppLog(ACL_ERROR, function, __FILE__, __LINE__, "legacy operator %s is not emulated", name);
    return code;
}

}  // namespace

aclError aclopCompileAndExecute(const char *opType, int, const aclTensorDesc *const[], const aclDataBuffer *const[],
                                int, const aclTensorDesc *const[], aclDataBuffer *const[], const aclopAttr *,
                                aclopEngineType, aclopCompileType, const char *, aclrtStream)
{
    return RefuseOperator(__func__, opType);
}

aclError aclopCompileAndExecuteV2(const char *opType, int, aclTensorDesc *[], aclDataBuffer *[], int,
                                  aclTensorDesc *[], aclDataBuffer *[], aclopAttr *, aclopEngineType,
                                  aclopCompileType, const char *, aclrtStream)
{
    return RefuseOperator(__func__, opType);
}
