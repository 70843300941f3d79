// The driver's interface, as far as torch_npu's profiler asks: does the system counter tick at a frequency of its own?
// There is no such counter here: the version is below the first that could name its frequency, and torch_npu takes the
// monotonic clock. drvGetDevNum is absent, so that torch_npu counts devices through libascendcl.
#include <cstdint>

namespace {
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 3;
constexpr int kNotSupported = 0xfffe;
constexpr int kNoVersion = 0;
}  // namespace

extern "C" __attribute__((visibility("default"))) int halGetAPIVersion(int* version) {
  if (version == nullptr) {
    return kInvalidValue;
  }
  *version = kNoVersion;
  return kSuccess;
}

extern "C" __attribute__((visibility("default"))) int halGetDeviceInfo(uint32_t, int32_t, int32_t, int64_t* value) {
  return value == nullptr ? kInvalidValue : kNotSupported;
}
