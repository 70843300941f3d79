#include "default_device.h"

#include <atomic>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "device.h"
#include "failure.h"

namespace twin {
namespace {

std::atomic<int32_t> defaultDevice{-1};

}  // namespace

aclError ReadDefaultDevice(const char* function, const char* configPath) {
  if (configPath == nullptr || *configPath == '\0') {
    return ACL_SUCCESS;
  }
  std::ifstream file(configPath);
  if (!file) {
    return Fail(ACL_ERROR_INVALID_FILE, function, "(configPath=%s): cannot be read", configPath);
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  // The one key of interest has a fixed form; the other sections are for tools that are not emulated.
  static const std::regex& key = *new std::regex(R"re("default_device"\s*:\s*"([0-9]{1,4})")re");
  std::smatch found;
  if (!std::regex_search(text, found, key)) {
    return ACL_SUCCESS;
  }
  const int32_t device = std::stoi(found[1]);
  // A machine without devices is initialised all the same; using it fails later.
  if (DeviceCount() > 0) {
    if (const aclError error = CheckDeviceId(function, device); error != ACL_SUCCESS) {
      return error;
    }
    defaultDevice.store(device);
  }
  return ACL_SUCCESS;
}

int32_t DefaultDevice() { return defaultDevice.load(); }

}  // namespace twin
