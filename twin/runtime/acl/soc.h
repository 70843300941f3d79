// Published core counts of the chips that the twin can claim to be: those of Atlas A2 and A3 that torch_npu knows.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace twin {

struct Soc {
  const char* name;
  int64_t cubeCores;
  int64_t vectorCores;
  int64_t l2Bytes;
};

inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr std::array<Soc, 12> kSocs = {{
    {"Ascend910B1", 24, 48, 192 * kMiB},
    {"Ascend910B2", 24, 48, 192 * kMiB},
    {"Ascend910B3", 20, 40, 192 * kMiB},
    {"Ascend910B4", 20, 40, 96 * kMiB},
    {"Ascend910B2C", 24, 48, 192 * kMiB},
    {"Ascend910B4-1", 20, 40, 168 * kMiB},
    {"Ascend910_9391", 24, 48, 192 * kMiB},
    {"Ascend910_9392", 24, 48, 192 * kMiB},
    {"Ascend910_9381", 24, 48, 192 * kMiB},
    {"Ascend910_9382", 24, 48, 192 * kMiB},
    {"Ascend910_9372", 20, 40, 192 * kMiB},
    {"Ascend910_9362", 20, 40, 192 * kMiB},
}};

inline std::vector<const char*> SocNames() {
  std::vector<const char*> names;
  for (const Soc& soc : kSocs) {
    names.push_back(soc.name);
  }
  return names;
}

inline const Soc& SocByName(std::string_view name) {
  for (const Soc& soc : kSocs) {
    if (soc.name == name) {
      return soc;
    }
  }
  return kSocs[1];
}

}  // namespace twin
