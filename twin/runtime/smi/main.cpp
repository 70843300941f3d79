// npu-smi info [-l|-m]: the devices that a process started in this environment would see. Nothing is measured, so there
// is no power, temperature or utilisation to show.
#include <acl/acl.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "processes.h"
#include "table.h"

namespace {
using twin::smi::Table;

struct Device {
  uint32_t id;
  std::size_t memory;  // bytes, the limit of each process
};

struct Platform {
  std::string toolkit;
  std::string chip;
  std::vector<Device> devices;
};

void Check(aclError code, const char* function) {
  if (code != ACL_SUCCESS) {
    const char* reason = aclGetRecentErrMsg();
    throw std::runtime_error(*reason != '\0' ? reason : std::string(function) + " failed");
  }
}

Platform Read() {
  Check(aclInit(nullptr), "aclInit");
  aclCANNPackageVersion version;
  Check(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version), "aclsysGetCANNVersion");
  uint32_t count = 0;
  Check(aclrtGetDeviceCount(&count), "aclrtGetDeviceCount");
  Platform platform{version.version, aclrtGetSocName(), {}};
  for (uint32_t id = 0; id < count; ++id) {
    std::size_t free = 0;
    std::size_t total = 0;
    Check(aclrtSetDevice(static_cast<int32_t>(id)), "aclrtSetDevice");
    Check(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), "aclrtGetMemInfo");
    platform.devices.push_back({id, total});
  }
  Check(aclFinalize(), "aclFinalize");
  return platform;
}

std::string Overview(const Platform& platform) {
  Table table({5, 16, 10, 12, 24});
  table.Rule();
  table.Line("npu-smi of the twin: emulated NPUs on a CPU, answering as CANN " + platform.toolkit);
  table.Rule();
  table.Row({"NPU", "Name", "Health", "Bus", "Memory limit a process"});
  table.Rule();
  for (const Device& device : platform.devices) {
    table.Row(
        {std::to_string(device.id), platform.chip, "emulated", "none", std::to_string(device.memory >> 20) + " MB"});
  }
  if (platform.devices.empty()) {
    table.Line("no device is visible (TWIN_NPU_COUNT, ASCEND_RT_VISIBLE_DEVICES)");
  }
  table.Rule();
  const auto processes = twin::smi::UsersOfTheRuntime();
  table.Line(processes.empty() ? "no running process of this user has loaded the runtime"
                               : "processes of this user that have loaded the runtime:");
  for (const auto& process : processes) {
    table.Line("  " + std::to_string(process.id) + "  " + process.name);
  }
  table.Rule();
  return table.Text();
}

std::string List(const Platform& platform) {
  std::string text = "Total Count : " + std::to_string(platform.devices.size()) + "\n";
  for (const Device& device : platform.devices) {
    text += "\nNPU ID      : " + std::to_string(device.id) + "\nChip Count  : 1\nChip Name   : " + platform.chip +
            " (emulated)\n";
  }
  return text;
}

std::string Mapping(const Platform& platform) {
  std::string text = "NPU ID  Chip ID  Chip Logic ID  Chip Name\n";
  for (const Device& device : platform.devices) {
    const std::string id = std::to_string(device.id);
    text += id + std::string(8 - id.size(), ' ') + "0        " + id + std::string(15 - id.size(), ' ') + platform.chip +
            " (emulated)\n";
  }
  return text;
}

constexpr char kUsage[] = "npu-smi of the twin (emulated): npu-smi info [-l | -m]\n";
}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto is = [&](std::initializer_list<const char*> wanted) {
    return arguments == std::vector<std::string>(wanted.begin(), wanted.end());
  };
  if (arguments.empty() || is({"-h"}) || is({"--help"})) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (!is({"info"}) && !is({"info", "-l"}) && !is({"info", "-m"})) {
    std::fprintf(stderr, "npu-smi: nothing else is emulated\n%s", kUsage);
    return 2;
  }
  try {
    const Platform platform = Read();
    const std::string text = is({"info"})         ? Overview(platform)
                             : is({"info", "-l"}) ? List(platform)
                                                  : Mapping(platform);
    std::fputs(text.c_str(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "npu-smi: %s\n", error.what());
    return 1;
  }
}
