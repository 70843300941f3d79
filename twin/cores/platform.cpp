#include "platform.h"

#include <cctype>
#include <cstdlib>

#include "acl/acl.h"

namespace twin {

namespace {

struct Machine {
  const char* prefix;  // longest first
  const char* shortName;
  uint32_t cubes;
  uint32_t vectors;
  uint64_t l2MiB;
};

constexpr Machine kMachines[] = {
    {"Ascend910B1", "ascend910b", 24, 48, 192}, {"Ascend910B2", "ascend910b", 24, 48, 192},
    {"Ascend910B3", "ascend910b", 20, 40, 192}, {"Ascend910B4", "ascend910b", 20, 40, 96},
    {"Ascend910B", "ascend910b", 20, 40, 192},  {"Ascend910_93", "ascend910_93", 24, 48, 192},
    {"Ascend310P", "ascend310p", 8, 8, 16},
};

const Machine* Find(const std::string& soc) {
  for (const auto& machine : kMachines) {
    if (soc.rfind(machine.prefix, 0) == 0) {
      return &machine;
    }
  }
  return nullptr;
}

}  // namespace

std::string ShortSocName(const std::string& soc) {
  const auto* machine = Find(soc);
  return machine == nullptr ? soc : machine->shortName;
}

fe::PlatFormInfos PlatformOfDevice() {
  fe::PlatFormInfos info;
  const char* name = aclrtGetSocName();
  info.soc = name == nullptr ? "" : name;
  const auto* machine = Find(info.soc);
  info.vectorCores = machine == nullptr ? 40 : machine->vectors;
  info.cubeCores = machine == nullptr ? 20 : machine->cubes;
  info.l2Bytes = (machine == nullptr ? 192 : machine->l2MiB) << 20;
  const char* cores = std::getenv("TWIN_CORES");
  if (cores != nullptr && std::atoi(cores) > 0) {
    info.vectorCores = static_cast<uint32_t>(std::atoi(cores));
    info.cubeCores = (info.vectorCores + 1) / 2;
  }
  return info;
}

}  // namespace twin
