// The emulated L2 alone: "lines cores requests", then "core first bytes read write barrier" each; prints what passes.
#include <cstdio>

#include "l2_cache.h"

int main() {
  unsigned long long lines = 0;
  std::size_t cores = 0;
  std::size_t count = 0;
  if (std::scanf("%llu %zu %zu", &lines, &cores, &count) != 3) {
    return 1;
  }
  std::vector<twin::L2Requests> requests(cores);
  for (; count > 0; --count) {
    std::size_t core = 0;
    unsigned long long at = 0;
    unsigned long long bytes = 0;
    int read = 0;
    int write = 0;
    unsigned barrier = 0;
    if (std::scanf("%zu %llu %llu %d %d %u", &core, &at, &bytes, &read, &write, &barrier) != 6 || core >= cores) {
      return 1;
    }
    requests[core].Add(reinterpret_cast<const void*>(at), bytes, read != 0, write != 0, barrier);
  }
  std::vector<const twin::L2Requests*> all;
  for (const auto& one : requests) {
    all.push_back(&one);
  }
  twin::L2Cache cache(lines * twin::kL2Line);
  cache.Serve(all);
  cache.Finish();
  std::printf("%llu %llu\n", static_cast<unsigned long long>(cache.bytesRead),
              static_cast<unsigned long long>(cache.bytesWritten));
  return 0;
}
