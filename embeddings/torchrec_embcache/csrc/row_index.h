#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "index_run.h"
#include "io_pool.h"
#include "memory_index.h"

namespace embcache {

// Where the row of each id may be: new entries in memory, and once these are `memory_entries` and a sixteenth of all,
// they are merged with the file of the others into a new file, a part with every write. So a store of a few million
// rows has its index in memory, and a large one takes about two bytes an id of memory.
//
// An entry is a hint: one whose row has been overwritten, moved or erased may stay, and the caller tells by what it
// knows of the row (RowStore::is_live) and by the id beside it. The row of an id that has one is always among them.
// Readers hold the owner's lock as shared, changes as exclusive, except where said.
class RowIndex {
 public:
  using Live = std::function<bool(uint32_t row)>;

  // With read_only, the folder's files stay as they are.
  RowIndex(std::string folder, int64_t memory_entries, bool read_only);

  struct Hit {
    uint32_t row;
    int64_t position;
  };
  // Appends the entries of hash(0), ..., hash(count - 1). May read the disk.
  template <typename Hash>
  void find(int64_t count, const Hash& hash, IoPool& pool, std::vector<Hit>& hits) const {
    constexpr int64_t kTogether = 16;  // whose lines are fetched one right after the other, a block and two ahead
    std::array<uint64_t, 3 * kTogether> hashes;  // of the blocks that are under way
    const auto hash_of = [&](int64_t i) -> uint64_t& { return hashes[static_cast<size_t>(i % (3 * kTogether))]; };
    std::vector<Probe> probes;
    for (int64_t first = -2 * kTogether; first < count; first += kTogether) {
      const auto block = [&](int64_t ahead) {
        return std::make_pair(std::clamp<int64_t>(first + ahead * kTogether, 0, count),
                              std::clamp<int64_t>(first + (ahead + 1) * kTogether, 0, count));
      };
      for (auto [i, end] = block(2); i < end; ++i) active_.prefetch_partition(hash_of(i) = hash(i));
      for (auto [i, end] = block(1); i < end; ++i) active_.prefetch(hash_of(i));
      for (auto [i, end] = block(0); i < end; ++i) {
        const uint64_t value = hash_of(i);
        const int64_t position = i;
        find_in_memory(value, [&](uint32_t row) { hits.push_back({row, position}); });
        const IndexRun* run = run_of(value);
        if (run != nullptr && run->may_have(value)) probes.push_back({value, position});
      }
    }
    if (!probes.empty()) find_in_runs(probes, pool, hits);
  }
  // Calls visit(row) for each entry of the hash. May read the disk.
  template <typename Visit>
  void find(uint64_t hash, const Visit& visit) const {
    find_in_memory(hash, visit);
    const IndexRun* run = run_of(hash);
    if (run == nullptr || !run->may_have(hash)) return;
    IndexRun::Page page;
    run->find(hash, page, visit);
  }

  // An entry of the hash will be changed soon.
  void prefetch(uint64_t hash) const { active_.prefetch(hash); }
  void insert(uint64_t hash, uint32_t row) { active_.insert(hash, row); }
  void move(uint64_t hash, uint32_t row, uint32_t to) {
    if (!active_.move(hash, row, to)) active_.insert(hash, to);
  }
  void remove(uint64_t hash, uint32_t row) { active_.remove(hash, row); }

  // Merges as much as is due; all that is begun with `finish`. The one that changes the index calls it without the
  // lock, which is taken when readers must notice. Can be repeated after an error.
  template <typename Mutex>
  void advance(const Live& live, Mutex& mutex, bool finish) {
    while (true) {
      if (merge_ == nullptr) {
        if (!is_due()) return;
        auto merge = begin_merge();
        const std::lock_guard<Mutex> lock(mutex);
        freeze(std::move(merge));
      }
      if (!is_behind(finish)) return;
      merge_some(live);
      const std::lock_guard<Mutex> lock(mutex);
      publish();
    }
  }

  int64_t bytes() const;       // of memory
  int64_t disk_bytes() const;  // of files

  // For a snapshot, with no merge under way: the file is made to last, and named; what is in memory is the caller's to
  // save. keep() is called when the snapshot is in place: then files that it does not name go.
  IndexRun::Seal seal();
  template <typename Sink>
  void save(const Sink& sink) const {
    active_.save(sink);
  }
  void keep(const IndexRun::Seal& seal);
  // The inverse of both; false if it is not there as it was, then the index is empty.
  template <typename Source>
  bool load(const IndexRun::Seal& seal, const Source& source) {
    if (seal.number != 0) run_ = IndexRun::open(folder_, seal);
    saved_ = seal.number;
    if ((seal.number == 0 || run_ != nullptr) && active_.load(source)) return true;
    clear();
    return false;
  }
  void clear();

 private:
  struct Probe {
    uint64_t hash;
    int64_t position;
  };
  struct Merge {
    Merge(std::unique_ptr<IndexRun> to, const IndexRun* from) : run(std::move(to)) {
      if (from != nullptr) reader = std::make_unique<IndexRun::Reader>(*from);
    }
    MemoryIndex frozen;  // what is merged with the run
    std::unique_ptr<IndexRun> run;
    std::unique_ptr<IndexRun::Reader> reader;  // of the run before
    uint32_t next = 0;                         // partition to be merged
    uint32_t visible = 0;                      // partitions before this one are found in the new run
    bool done = false;
  };

  template <typename Visit>
  void find_in_memory(uint64_t hash, const Visit& visit) const {
    active_.find(hash, visit);
    if (merge_ != nullptr && partition_of(hash) >= merge_->visible) merge_->frozen.find(hash, visit);
  }
  const IndexRun* run_of(uint64_t hash) const {
    return merge_ != nullptr && partition_of(hash) < merge_->visible ? merge_->run.get() : run_.get();
  }
  void find_in_runs(std::vector<Probe>& probes, IoPool& pool, std::vector<Hit>& hits) const;

  int64_t limit() const;
  bool is_due() const { return !read_only_ && active_.size() >= limit(); }
  bool is_behind(bool finish) const;
  std::unique_ptr<Merge> begin_merge();
  void freeze(std::unique_ptr<Merge> merge);
  void merge_some(const Live& live);
  void merge_partition(uint32_t number, const Live& live);
  void publish();
  void remove_file(uint64_t number) const;

  std::string folder_;
  int64_t memory_entries_;
  bool read_only_;
  MemoryIndex active_;
  std::unique_ptr<Merge> merge_;
  std::unique_ptr<IndexRun> run_;
  uint64_t next_number_ = 1;
  uint64_t saved_ = 0;  // the run that the snapshot on disk names
};

}  // namespace embcache
