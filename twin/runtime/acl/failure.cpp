#include "failure.h"

#include <cstdarg>
#include <cstdio>

#include "device.h"
#include "device_failure.h"
#include "log.h"
#include "settings.h"
#include "twin/stream.h"

namespace twin {
namespace {

// A plain array: it has no destructor, so a thread that ends late can still fail.
thread_local char recent[4096];

}  // namespace

aclError Fail(aclError code, const char* function, const char* format, ...) {
  char reason[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  std::snprintf(recent, sizeof recent, "[twin, emulated %s] %s%s (error %d)", GetSettings().soc.c_str(), function,
                reason, code);
  Log(ACL_ERROR, "%s", recent);
  if (OnTaskQueue()) {
    FailDevice(CurrentDevice(), {code, recent}, /*queueEnded=*/true);
  }
  return code;
}

aclError Report(aclError code, const std::string& text) {
  std::snprintf(recent, sizeof recent, "%s", text.c_str());
  return code;
}

const char* RecentFailure() { return recent; }

void ClearFailure() { recent[0] = '\0'; }

}  // namespace twin

const char* aclGetRecentErrMsg() { return twin::recent; }

extern "C" __attribute__((visibility("default"))) void twinSetErrorMessage(const char* message) {
  std::snprintf(twin::recent, sizeof twin::recent, "%s", message == nullptr ? "" : message);
  if (twin::recent[0] != '\0' && twin::OnTaskQueue()) {
    twin::FailDevice(twin::CurrentDevice(), {ACL_ERROR_INTERNAL_ERROR, twin::recent}, /*queueEnded=*/true);
  }
}
