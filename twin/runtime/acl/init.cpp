// aclInit and aclFinalize; the ATen override is loaded here, when torch_npu has registered everything.
#include <dlfcn.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <mutex>

#include "counts_file.h"
#include "default_device.h"
#include "device.h"
#include "failure.h"
#include "log.h"
#include "process.h"
#include "settings.h"
#include "stream_order.h"
#include "stream_table.h"

using namespace twin;

namespace {

enum class State { kFresh, kRunning, kFinalized };

State state = State::kFresh;

std::mutex& Guard() {
  static std::mutex& guard = *new std::mutex;
  return guard;
}

void FinishCounts() {
  if (Counting()) {
    Counts::Get().Finish();
  }
}

// Workers must be gone before the static objects of the libraries that their tasks use. aclInit runs after those
// libraries were loaded, so this runs before their destructors.
void StopAtExit() {
  if (!IsForkedChild()) {
    StopAllStreams();
    FinishCounts();
  }
}

// A thread of torch_npu asks each few microseconds whether its task queue has released something: a sixth of a core,
// which emulated devices need for themselves. It inherits this of the thread that initialises.
constexpr unsigned long kTimerSlack = 1'000'000;  // ns that a sleep may last longer

bool TorchNpuIsLoaded() {
  void* library = dlopen("libtorch_npu.so", RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) {
    dlclose(library);
  }
  return library != nullptr;
}

aclError InstallAtenOverride(const char* function) {
  const auto& choice = GetSettings().aten;
  if (choice == "aclnn" || !TorchNpuIsLoaded()) {
    return ACL_SUCCESS;
  }
  void* library = dlopen("libtwin_aten.so", RTLD_NOW | RTLD_GLOBAL);
  auto* const install = library == nullptr ? nullptr : reinterpret_cast<void (*)()>(dlsym(library, "twinInstallAten"));
  if (install != nullptr) {
    install();
    return ACL_SUCCESS;
  }
  const char* reason = dlerror();
  if (choice == "override") {
    return Fail(ACL_ERROR_INTERNAL_ERROR, function, ": TWIN_ATEN=override: %s", reason);
  }
  Log(ACL_WARNING, "the ATen override is not installed, operators take the aclnn path: %s", reason);
  return ACL_SUCCESS;
}

}  // namespace

aclError aclInit(const char* configPath) {
  const auto& settings = GetSettings();
  if (!settings.faults.empty()) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, ": %s", settings.faults.c_str());
  }
  if (const aclError error = RefuseForkedChild(__func__); error != ACL_SUCCESS) {
    return error;
  }
  if (Counting() && !CountsFile::Get().Fault().empty()) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, ": %s", CountsFile::Get().Fault().c_str());
  }
  if (const aclError error = ReadDefaultDevice(__func__, configPath); error != ACL_SUCCESS) {
    return error;
  }
  {
    const std::lock_guard lock(Guard());
    if (state == State::kRunning) {
      return Report(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: already initialised");
    }
    if (state == State::kFresh) {
      std::atexit(StopAtExit);
    }
    state = State::kRunning;
  }
  prctl(PR_SET_TIMERSLACK, kTimerSlack, 0, 0, 0);
  Log(ACL_INFO, "emulated NPU: %d devices that answer as %s, toolkit %s; correctness, not speed", DeviceCount(),
      settings.soc.c_str(), settings.cannVersion.c_str());
  return InstallAtenOverride(__func__);
}

aclError aclFinalize() {
  if (IsForkedChild()) {
    return ACL_SUCCESS;
  }
  {
    const std::lock_guard lock(Guard());
    if (state != State::kRunning) {
      return Fail(state == State::kFresh ? ACL_ERROR_UNINITIALIZE : ACL_ERROR_REPEAT_FINALIZE, __func__,
                  ": the runtime is not initialised");
    }
    state = State::kFinalized;
  }
  if (Strict()) {  // a touch of pinned memory that no later call has told of goes into the log
    static_cast<void>(StreamOrder::Get().PendingFault(__func__));
  }
  StopAllStreams();
  FinishCounts();
  return ACL_SUCCESS;
}
