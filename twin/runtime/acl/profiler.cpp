// The device side of the profiler (aclprof*). torch_npu records its operators on the host itself; it wants these
// functions before it starts, and afterwards a folder PROF_... to read with msprof (twin/tools/profiler). No counter of
// a device is emulated, so the folder is empty: the trace has what torch_npu recorded on the host.
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>

#include "acl/acl_msprof.h"
#include "acl/acl_prof.h"
#include "failure.h"
#include "log.h"

using namespace twin;

struct aclprofConfig {
  uint64_t dataTypes;
};

namespace {

enum class State { kIdle, kReady, kRunning };

class Profiler {
 public:
  static Profiler& Get() {
    static Profiler& profiler = *new Profiler;
    return profiler;
  }

  aclError Enter(const char* function, State from, State to, const char* wanted) {
    const std::lock_guard lock(mutex_);
    if (state_ != from) {
      return Fail(ACL_ERROR_PROFILING_FAILURE, function, ": %s", wanted);
    }
    state_ = to;
    return ACL_SUCCESS;
  }

 private:
  std::mutex mutex_;
  State state_ = State::kIdle;
};

// The name by which torch_npu knows the folder: a number, the time, letters that tell processes apart.
std::string FolderName() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &local);
  return "PROF_000001_" + std::string(stamp) + "_TWIN" + std::to_string(getpid());
}

}  // namespace

aclError aclprofInit(const char* profilerResultPath, size_t length) {
  if (profilerResultPath == nullptr || length == 0) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(profilerResultPath=%p, length=%zu): no folder is named",
                static_cast<const void*>(profilerResultPath), length);
  }
  const aclError refused =
      Profiler::Get().Enter(__func__, State::kIdle, State::kReady, "a profiler is in use; finalize it first");
  if (refused != ACL_SUCCESS) {
    return refused;
  }
  const std::filesystem::path folder = std::filesystem::path(std::string(profilerResultPath, length)) / FolderName();
  std::error_code error;
  std::filesystem::create_directories(folder / "host", error);
  if (!error) {
    std::filesystem::permissions(folder, std::filesystem::perms(0750), error);
  }
  if (error) {
    Profiler::Get().Enter(__func__, State::kReady, State::kIdle, "");
    return Fail(ACL_ERROR_PROFILING_FAILURE, __func__, "(profilerResultPath=%s): %s", folder.c_str(),
                error.message().c_str());
  }
  return ACL_SUCCESS;
}

aclError aclprofFinalize() {
  return Profiler::Get().Enter(__func__, State::kReady, State::kIdle, "no profiler is initialised, or it still runs");
}

aclprofConfig* aclprofCreateConfig(uint32_t* deviceIdList, uint32_t deviceNums, aclprofAicoreMetrics,
                                   aclprofAicoreEvents*, uint64_t dataTypeConfig) {
  if (deviceIdList == nullptr && deviceNums > 0) {
    Fail(ACL_ERROR_INVALID_PARAM, __func__, "(deviceIdList=null, deviceNums=%u)", deviceNums);
    return nullptr;
  }
  return std::make_unique<aclprofConfig>(aclprofConfig{dataTypeConfig}).release();
}

aclError aclprofDestroyConfig(const aclprofConfig* profilerConfig) {
  if (profilerConfig == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(profilerConfig=null)");
  }
  const std::unique_ptr<const aclprofConfig> owned(profilerConfig);
  return ACL_SUCCESS;
}

aclError aclprofStart(const aclprofConfig* profilerConfig) {
  if (profilerConfig == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(profilerConfig=null)");
  }
  Log(ACL_INFO, "profiler: operators are recorded on the host; no counter of a device is emulated (asked for: 0x%llx)",
      static_cast<unsigned long long>(profilerConfig->dataTypes));
  return Profiler::Get().Enter(__func__, State::kReady, State::kRunning, "not initialised, or started already");
}

aclError aclprofStop(const aclprofConfig* profilerConfig) {
  if (profilerConfig == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(profilerConfig=null)");
  }
  return Profiler::Get().Enter(__func__, State::kRunning, State::kReady, "it was not started");
}

// Nothing has to be warmed up. Not declared in the wheel's headers; torch_npu looks it up.
extern "C" ACL_FUNC_VISIBILITY aclError aclprofWarmup(const aclprofConfig* profilerConfig) {
  return profilerConfig == nullptr ? Fail(ACL_ERROR_INVALID_PARAM, __func__, "(profilerConfig=null)") : ACL_SUCCESS;
}

aclError aclprofSetConfig(aclprofConfigType configType, const char* config, size_t configLength) {
  if (config == nullptr || configLength == 0) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(configType=%d): no value", static_cast<int>(configType));
  }
  if (configType == ACL_PROF_STORAGE_LIMIT) {  // what stores nothing keeps every limit
    return ACL_SUCCESS;
  }
  return Fail(ACL_ERROR_FEATURE_UNSUPPORTED, __func__, "(configType=%d): no such counter is emulated",
              static_cast<int>(configType));
}
