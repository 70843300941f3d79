// The error text behind aclGetRecentErrMsg: which function, with what arguments, why. One text per thread.
#pragma once
#include <string>

#include "acl/acl.h"

namespace twin {

// Keeps the text for this thread, logs it at level error and returns `code`.
__attribute__((format(printf, 3, 4))) aclError Fail(aclError code, const char* function, const char* format, ...);

// A failure that happened on a stream, reported to the thread that finds it. Keeps `text` as it is.
aclError Report(aclError code, const std::string& text);

// This thread's text; empty when there was no failure.
const char* RecentFailure();
void ClearFailure();

}  // namespace twin
