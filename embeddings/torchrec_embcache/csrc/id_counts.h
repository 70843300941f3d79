#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace embcache {

// How many of the batches in the look-ahead need each id. Open addressing, linear probing, at most half full; an entry
// whose count falls to zero closes its gap. Not synchronised.
class IdCounts {
 public:
  IdCounts() : entries_(kLeast) {}

  // Counts each of distinct ids once more; returns how many were not there.
  int64_t add(const int64_t* ids, int64_t count);
  // Counts them once less; returns how many are gone. Ids that are not there are passed over.
  int64_t remove(const int64_t* ids, int64_t count);
  // Sets there[i]; returns how many are there.
  int64_t contains(const int64_t* ids, int64_t count, unsigned char* there) const;
  int64_t size() const { return size_; }

 private:
  static constexpr size_t kLeast = 1024;

  struct Entry {
    int64_t id = 0;
    int64_t count = 0;  // 0: free
  };

  size_t home(int64_t id) const;
  size_t find(int64_t id) const;  // its entry, or the free one where it would be
  void grow();
  void close_gap(size_t at);

  std::vector<Entry> entries_;  // a power of two
  int64_t size_ = 0;
};

// The distinct ids of `ids` in the order of their first occurrence; returns their number. `out` has room for `count`.
int64_t distinct_ids(const int64_t* ids, int64_t count, int64_t* out);

}  // namespace embcache
