#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace embcache {

// How many of the batches in the look-ahead need each id. Open addressing, linear probing, at most half full; an id
// whose count falls to zero keeps its entry until all are laid out anew, for it often comes again. Not synchronised.
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

  static constexpr int64_t kFree = 0;
  static constexpr int64_t kGone = 1;

  struct Entry {
    int64_t id = 0;
    int64_t state = kFree;  // else kGone + the count
  };

  size_t home(int64_t id) const;
  size_t find(int64_t id) const;  // its entry, or the free one where it would be
  void rebuild();

  std::vector<Entry> entries_;  // a power of two
  size_t taken_ = 0;            // entries that are not free
  int64_t size_ = 0;            // ids with a count
};

// The distinct ids of `ids` in the order of their first occurrence; returns their number. `out` has room for `count`.
int64_t distinct_ids(const int64_t* ids, int64_t count, int64_t* out);

}  // namespace embcache
