#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace embcache {

// Where each of distinct ids stands in a list; made once, then asked by any thread. Open addressing, at most half full.
class IdPositions {
 public:
  IdPositions(const int64_t* ids, int64_t count);

  // positions[i] = where ids[i] stands, or -1.
  void find(const int64_t* ids, int64_t count, int64_t* positions) const;

 private:
  size_t place_of(int64_t id) const;  // of its entry, or of the free one where it would be

  std::vector<int64_t> ids_;
  std::vector<uint32_t> places_;  // a power of two; 1 + the position, 0: free
};

}  // namespace embcache
