// Tiling keys that the compiled kernels test, filled by static initialisers (ascendc/tiling.h).
#include "keys.h"

#include <map>

#include "ascendc/tiling.h"

namespace twin {

namespace {

std::map<int, std::set<uint64_t>> &Keys()
{
    static std::map<int, std::set<uint64_t>> keys;
    return keys;
}

}

void RegisterTilingKey(int object, uint64_t key) { Keys()[object].insert(key); }

const std::set<uint64_t> &TilingKeys(int object) { return Keys()[object]; }

}
