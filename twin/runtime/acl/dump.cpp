// aclmdl*Dump: data dumps belong to compiled models, which are not emulated. torch_npu links these three.
#include "failure.h"

using namespace twin;

namespace {

aclError Refuse(const char* function) {
  return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, function, ": data dumps are not emulated");
}

}  // namespace

aclError aclmdlInitDump() { return Refuse(__func__); }
aclError aclmdlSetDump(const char*) { return Refuse(__func__); }
aclError aclmdlFinalizeDump() { return Refuse(__func__); }

// No stream can be subscribed for callbacks, so no thread has reports to process.
aclError aclrtProcessReport(int32_t timeout) {
  return Fail(ACL_ERROR_THREAD_NOT_SUBSCRIBE, __func__, "(timeout=%d): stream callbacks are not emulated", timeout);
}
