// The emulated L2 alone: "lines cores events", then one of
//   ask core first bytes read write barrier
//   set core meeting
//   wait core meeting
// each; prints what passes, or "stuck".
#include <cstdio>
#include <map>
#include <string>

#include "l2_cache.h"

int main() {
  unsigned long long lines = 0;
  std::size_t cores = 0;
  std::size_t count = 0;
  if (std::scanf("%llu %zu %zu", &lines, &cores, &count) != 3) {
    return 1;
  }
  std::vector<twin::L2Requests> requests(cores);
  std::map<int, std::shared_ptr<twin::L2Meeting>> meetings;
  for (; count > 0; --count) {
    char event[8];
    std::size_t core = 0;
    if (std::scanf("%7s %zu", event, &core) != 2 || core >= cores) {
      return 1;
    }
    unsigned long long at = 0;
    unsigned long long bytes = 0;
    int read = 0;
    int write = 0;
    unsigned barrier = 0;
    int meeting = 0;
    const bool asks = std::string(event) == "ask";
    if (asks ? std::scanf("%llu %llu %d %d %u", &at, &bytes, &read, &write, &barrier) != 5
             : std::scanf("%d", &meeting) != 1) {
      return 1;
    }
    if (asks) {
      requests[core].Add(reinterpret_cast<const void*>(at), bytes, read != 0, write != 0, barrier);
      continue;
    }
    auto& met = meetings[meeting];
    if (met == nullptr) {
      met = std::make_shared<twin::L2Meeting>();
    }
    if (std::string(event) == "set") {
      met->members.push_back({core, requests[core].Mark()});
    } else {
      requests[core].WaitFor(met);
    }
  }
  std::vector<const twin::L2Requests*> all;
  for (const auto& one : requests) {
    all.push_back(&one);
  }
  twin::L2Cache cache(lines * twin::kL2Line);
  if (!cache.Serve(all)) {
    std::printf("stuck\n");
    return 0;
  }
  cache.Finish();
  std::printf("%llu %llu\n", static_cast<unsigned long long>(cache.bytesRead),
              static_cast<unsigned long long>(cache.bytesWritten));
  return 0;
}
