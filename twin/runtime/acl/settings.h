// What the environment says about the emulated machine. Read once, at first use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace twin {

struct Settings {
  std::vector<int32_t> devices;     // physical ids of the visible devices, in visible order
  std::string soc;                  // TWIN_NPU_SOC
  std::string cannVersion;          // TWIN_CANN_VERSION
  std::size_t memoryPerDevice = 0;  // TWIN_NPU_MEMORY, bytes; counted per process
  std::string aten;                 // TWIN_ATEN: "override", "aclnn", or "" when unset
  bool strictStreams = false;       // TWIN_STREAMS
  bool computes = true;             // TWIN_COMPUTE; false: device memory is never written
  std::string counts;               // TWIN_COUNTS: a file, with %p and %r; empty when nothing is counted
  int logLevel = 0;                 // aclLogLevel; one above ACL_ERROR is off
  std::string faults;               // malformed values, all of them; empty when there is none
};

const Settings& GetSettings();

}  // namespace twin
