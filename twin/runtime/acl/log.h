// The twin's log, one line at a time on standard error. TWIN_LOG or ASCEND_GLOBAL_LOG_LEVEL set the level.
#pragma once
#include <cstdarg>

#include "acl/acl.h"

namespace twin {

bool LogEnabled(int level);
__attribute__((format(printf, 2, 3))) void Log(int level, const char* format, ...);
void LogLine(int level, const char* origin, const char* format, va_list arguments);

}  // namespace twin
