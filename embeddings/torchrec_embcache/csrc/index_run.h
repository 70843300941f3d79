#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "file.h"
#include "index_entry.h"
#include "index_filter.h"

namespace embcache {

// Entries in a file, all in order, in pages with checksums; in memory where each partition begins, and the filter.
// Written once from beginning to end (index_merge.h); finished partitions can be searched before the others are there.
// Readers may be several threads.
class IndexRun {
 public:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kPageEntries = kPageBytes / sizeof(uint64_t) - 1;

  // How a store's snapshot names a run and knows that it is the one.
  struct Seal {
    uint64_t number = 0;
    uint64_t entries = 0;
    uint64_t room = 0;  // for which the filter was made
    uint64_t checksum = 0;
  };

  static std::string path(const std::string& folder, uint64_t number);
  // Numbers of the runs in the folder.
  static std::vector<uint64_t> list(const std::string& folder);
  // A new file with room for so many entries.
  static std::unique_ptr<IndexRun> create(const std::string& folder, uint64_t number, uint64_t room);
  // The file as it was sealed; nullptr if it is not.
  static std::unique_ptr<IndexRun> open(const std::string& folder, const Seal& seal);

  uint64_t number() const { return number_; }
  uint64_t size() const { return starts_[kPartitions]; }
  int64_t bytes() const;       // of memory
  int64_t disk_bytes() const;  // of the file

  bool may_have(uint64_t hash) const { return filter_.may_have(hash); }
  void drop_filter_before(uint32_t partition) { filter_.drop_before(partition); }

  // Calls visit(row) for each entry of the hash. `page` is the caller's, for further calls.
  struct Page {
    uint64_t number = UINT64_MAX;
    uint64_t words[kPageBytes / sizeof(uint64_t)];
  };
  template <typename Visit>
  void find(uint64_t hash, Page& page, const Visit& visit) const {
    const uint32_t partition = partition_of(hash);
    const uint64_t begin = starts_[partition];
    const uint64_t end = starts_[partition + 1];
    if (begin == end) return;
    const uint64_t first = first_entry(hash);
    load((begin + expected_place(first, end - begin)) / kPageEntries, page);
    const auto from = [&] { return std::max(begin, page.number * kPageEntries); };
    while (from() > begin && page.words[from() % kPageEntries] >= first) load(page.number - 1, page);
    for (uint64_t k = lower_bound(page, from(), end, first); k < end; ++k) {
      if (k / kPageEntries != page.number) load(page.number + 1, page);
      const uint64_t entry = page.words[k % kPageEntries];
      if (entry < first) continue;  // the page before ended with smaller ones
      if (entry - first >= kMaxRows) return;
      visit(row_of(entry));
    }
  }

  // The entries of a partition, in order; for reading all of them from the first on.
  class Reader {
   public:
    explicit Reader(const IndexRun& run) : run_(run) {}
    const std::vector<uint64_t>& partition(uint32_t number);

   private:
    const IndexRun& run_;
    std::vector<uint64_t> entries_;
    std::vector<unsigned char> pages_;
    uint64_t first_page_ = 0;
    uint64_t end_page_ = 0;
  };

  // For writing, partition by partition. add() collects; write() writes the full pages, or with `last` all, and can be
  // repeated if it fails.
  void add(uint32_t partition, uint64_t entry) {
    filter_.add(partition, entry);
    pending_.push_back(entry);
    ++added_;
  }
  size_t pending() const { return pending_.size(); }
  void end_partition(uint32_t partition) { starts_[partition + 1] = added_; }
  void write(bool last);
  // How many of the first `ended` partitions have been written to their ends.
  uint32_t written_partitions(uint32_t ended) const;
  // Makes the file last: what open() needs is written too.
  Seal seal();

 private:
  IndexRun(File file, uint64_t number, uint64_t room);
  void load(uint64_t number, Page& page) const;
  static uint64_t lower_bound(const Page& page, uint64_t from, uint64_t end, uint64_t entry);
  uint32_t page_checksum(const void* page, uint64_t number) const;
  [[noreturn]] void throw_corrupt(uint64_t page) const;
  uint64_t pages() const { return (size() + kPageEntries - 1) / kPageEntries; }

  File file_;
  uint64_t number_;
  uint64_t room_;
  IndexFilter filter_;
  std::vector<uint64_t> starts_;
  uint64_t added_ = 0;
  uint64_t written_ = 0;           // entries
  std::vector<uint64_t> pending_;  // added, not written
  Seal seal_;
};

}  // namespace embcache
