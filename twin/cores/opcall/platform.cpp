#include "platform.h"

#include <cstdlib>

namespace twin {

namespace {

struct Machine {
  const char* name;
  bool series;  // the name begins those of several chips
  const char* shortName;
  uint32_t cubes;
  uint32_t vectors;
  uint64_t l2MiB;
};

constexpr Machine kMachines[] = {
    {"Ascend910B", false, "ascend910b", 20, 40, 192},     {"Ascend910B1", false, "ascend910b", 24, 48, 192},
    {"Ascend910B2", false, "ascend910b", 24, 48, 192},    {"Ascend910B2C", false, "ascend910b", 24, 48, 192},
    {"Ascend910B3", false, "ascend910b", 20, 40, 192},    {"Ascend910B4", false, "ascend910b", 20, 40, 96},
    {"Ascend910B4-1", false, "ascend910b", 20, 40, 168},  {"Ascend910_936", true, "ascend910_93", 20, 40, 192},
    {"Ascend910_937", true, "ascend910_93", 20, 40, 192}, {"Ascend910_93", true, "ascend910_93", 24, 48, 192},
    {"Ascend310P", true, "ascend310p", 8, 8, 16},
};

const Machine* Find(const std::string& soc) {
  for (const auto& machine : kMachines) {
    if (machine.series ? soc.rfind(machine.name, 0) == 0 : soc == machine.name) {
      return &machine;
    }
  }
  return nullptr;
}

}  // namespace

std::string ShortSocName(const std::string& soc) {
  const auto* machine = Find(soc);
  return machine == nullptr ? "" : machine->shortName;
}

std::string KnownSocs() {
  std::string names;
  for (const auto& machine : kMachines) {
    names += (names.empty() ? "" : " ") + std::string(machine.name) + (machine.series ? "*" : "");
  }
  return names;
}

std::optional<fe::PlatFormInfos> PlatformOf(const std::string& soc) {
  const auto* machine = Find(soc);
  if (machine == nullptr) {
    return std::nullopt;
  }
  fe::PlatFormInfos info;
  info.soc = soc;
  info.vectorCores = machine->vectors;
  info.cubeCores = machine->cubes;
  info.l2Bytes = machine->l2MiB << 20;
  const char* cores = std::getenv("TWIN_CORES");
  if (cores != nullptr && std::atoi(cores) > 0) {
    info.vectorCores = static_cast<uint32_t>(std::atoi(cores));
    info.cubeCores = (info.vectorCores + 1) / 2;
  }
  return info;
}

}  // namespace twin
