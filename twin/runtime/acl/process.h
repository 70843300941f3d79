// A process that forked after it used the device: the child has the parent's memory but not its worker threads,
// and may have inherited locked locks. Every entry that would take a lock asks here first.
#pragma once

#include "acl/acl.h"

namespace twin {

// Call when the first worker or allocation comes into being; only then is a child refused.
void MarkRuntimeInUse();

// True in a child that was forked while the runtime was in use.
bool IsForkedChild();

// 0, or the failure for `function` when this is such a child.
aclError RefuseForkedChild(const char* function);

}  // namespace twin
