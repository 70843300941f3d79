#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace embcache {

// Whose a record is, of rows that were read or written lately. The index only says where the row of an id may be, and
// the id beside the row tells; what is known here need not be read from there again. At most 16 MiB, the oldest of five
// makes room. Rows are numbered as in the index; any thread.
class KnownRows {
 public:
  struct Row {
    int64_t id;
    uint64_t hash;
    uint32_t row;
  };

  // rows[k] = the row that was known for ids[order[k]], or -1; whether it still is the id's row, the caller tells.
  void find(const int64_t* ids, const std::vector<int64_t>& order, std::vector<int64_t>& rows) const;
  // `total`: rows of the store, which this need not be much larger than.
  void add(const std::vector<Row>& rows, int64_t total);
  // Rows [begin, end) will be other records.
  void forget(uint32_t begin, uint32_t end);

 private:
  static constexpr size_t kEntries = 5;
  static constexpr size_t kMostSets = size_t{1} << 18;
  static constexpr uint32_t kFree = UINT32_MAX;

  struct alignas(64) Set {  // the newest first
    int64_t ids[kEntries] = {};
    uint32_t rows[kEntries] = {kFree, kFree, kFree, kFree, kFree};
  };

  const Set& set_of(uint64_t hash) const { return sets_[hash >> shift_]; }
  void put(Set& set, int64_t id, uint32_t row);

  mutable std::mutex mutex_;
  std::vector<Set> sets_;  // a power of two, at least two, or none
  int shift_ = 63;
};

}  // namespace embcache
