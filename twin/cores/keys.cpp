// Tiling keys that the compiled kernels test and kernel types that they declare, filled by static initialisers
// (ascendc/tiling.h).
#include "keys.h"

#include <map>
#include <set>
#include <utility>

#include "ascendc/tiling.h"

namespace twin {

namespace {

std::map<int, std::set<uint64_t>>& Keys() {
  static std::map<int, std::set<uint64_t>> keys;
  return keys;
}

// Types by (default, key); the default's key is 0.
using TypesOfObject = std::map<std::pair<bool, uint64_t>, int>;

std::map<int, TypesOfObject>& Types() {
  static std::map<int, TypesOfObject> types;
  return types;
}

std::set<int>& CubeUsers() {
  static std::set<int> users;
  return users;
}

}  // namespace

void RegisterTilingKey(int object, uint64_t key) { Keys()[object].insert(key); }

const std::set<uint64_t>& TilingKeys(int object) { return Keys()[object]; }

void RegisterCubeUse(int object) { CubeUsers().insert(object); }

void RegisterTaskType(int object, bool anyKey, uint64_t key, int type) { Types()[object][{anyKey, key}] = type; }

int TaskType(int object, uint64_t key) {
  const auto& types = Types()[object];
  const auto own = types.find({false, key});
  const auto all = types.find({true, 0});
  if (types.empty() && CubeUsers().count(object) != 0) {
    return KERNEL_TYPE_MIX_AIC_1_2;
  }
  return own != types.end() ? own->second : all != types.end() ? all->second : -1;
}

}  // namespace twin
