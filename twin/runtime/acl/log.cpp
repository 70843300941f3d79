#include "log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "device.h"
#include "device_failure.h"
#include "failure.h"
#include "settings.h"

namespace twin {

bool LogEnabled(int level) { return level >= GetSettings().logLevel; }

void LogLine(int level, const char* origin, const char* format, va_list arguments) {
  static constexpr std::array<const char*, 4> names = {"DEBUG", "INFO", "WARNING", "ERROR"};
  char line[4096];
  const auto index = static_cast<std::size_t>(std::clamp(level, 0, 3));
  int used = std::snprintf(line, sizeof line, "[twin %s pid %d] %s", names[index], getpid(), origin);
  used = std::min<int>(used, sizeof line - 2);
  const int more = std::vsnprintf(line + used, sizeof line - 1 - static_cast<std::size_t>(used), format, arguments);
  used = std::min<int>(used + std::max(more, 0), sizeof line - 2);
  line[used] = '\n';
  // One write per line keeps the lines of several processes apart. Nothing can be done about a failed one.
  if (write(STDERR_FILENO, line, static_cast<std::size_t>(used) + 1) < 0) {
    return;
  }
}

void Log(int level, const char* format, ...) {
  if (!LogEnabled(level)) {
    return;
  }
  va_list arguments;
  va_start(arguments, format);
  LogLine(level, "", format, arguments);
  va_end(arguments);
}

}  // namespace twin

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
  const char* path = file == nullptr ? "?" : file;
  if (logLevel == ACL_ERROR && twin::OnTaskQueue() && std::strstr(path, "NPUQueue.cpp") != nullptr) {
    // The consumer tells of its end: an error that none of our functions called a failure, such as memory.
    const std::string reason = twin::RecentFailure();
    twin::FailDevice(twin::CurrentDevice(),
                     {ACL_ERROR_INTERNAL_ERROR, reason.empty() ? "torch_npu's task queue ended" : reason},
                     /*queueEnded=*/true);
  }
  if (!twin::LogEnabled(logLevel) || fmt == nullptr) {
    return;
  }
  const char* slash = std::strrchr(path, '/');
  char origin[256];
  std::snprintf(origin, sizeof origin, "app %s:%u %s: ", slash == nullptr ? path : slash + 1, line,
                func == nullptr ? "?" : func);
  va_list arguments;
  va_start(arguments, fmt);
  twin::LogLine(logLevel, origin, fmt, arguments);
  va_end(arguments);
}
