// Hooks around each aclnn call for a per-thread memory pool of the platform. The twin's handles need none.
#include "interface.h"

extern "C" {

TWIN_API int InitHugeMemThreadLocal(void*, bool) { return kAclnnSuccess; }
TWIN_API void UnInitHugeMemThreadLocal(void*, bool) {}
TWIN_API void ReleaseHugeMem(void*, bool) {}
}
