// aclrtSetSysParamOpt and its context form. torch_npu looks them up in this library, not in libascendcl.
#include "acl/acl_rt.h"
#include "refusal.h"

using namespace twin;

namespace {

// The twin is deterministic with either value.
aclError Set(const char* function, aclSysParamOpt opt, int64_t value) {
  if (opt == ACL_OPT_DETERMINISTIC && (value == 0 || value == 1)) {
    return ACL_SUCCESS;
  }
  if (opt == ACL_OPT_ENABLE_DEBUG_KERNEL && value == 0) {
    return ACL_SUCCESS;
  }
  return Refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "[twin] %s(opt=%d, value=%lld): not emulated", function,
                static_cast<int>(opt), static_cast<long long>(value));
}

}  // namespace

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) { return Set(__func__, opt, value); }
aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) { return Set(__func__, opt, value); }
