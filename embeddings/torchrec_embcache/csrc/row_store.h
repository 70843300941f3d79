#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "error.h"
#include "io_pool.h"
#include "known_rows.h"
#include "row_index.h"
#include "slab.h"

namespace embcache {

// Column c of a batch of rows is `width` contiguous bytes a row; a stored row is its columns one after the other.
struct Column {
  unsigned char* data;
  uint32_t width;
};

struct Options {
  std::string folder;
  uint32_t row_bytes = 0;
  int64_t slab_bytes = 0;     // of a new store
  int64_t index_entries = 0;  // of the index that may be in memory, at least
  int io_threads = 1;
  bool read_only = false;
  bool repair = false;  // drop damaged records instead of refusing to open
};

struct Stats {
  int64_t rows;
  int64_t records;  // with old versions and erasures
  int64_t slabs;
  int64_t disk_bytes;
  int64_t index_bytes;  // of memory
  int64_t bytes_read;
  int64_t bytes_written;
  int64_t bytes_compacted;
  int64_t dropped;  // damaged or torn records that the opening dropped
};

// Rows by 64-bit id in append-only slab files, with an index (row_index.h): a log-structured hash table, as Bitcask and
// FASTER are. A write appends and then moves the index entry, so a process killed at any point leaves the old or the
// new version of each row of the last call, and everything of the calls before. flush() is the same promise for a loss
// of power. Space of old versions is taken back as writes go on, and the index goes to disk, a bounded amount per call.
// Any number of readers beside one writer; further writers wait.
class RowStore {
 public:
  explicit RowStore(const Options& options);

  // The rows of distinct or repeated ids; the last of repeated ones wins.
  void write(const int64_t* ids, int64_t count, const std::vector<Column>& columns);
  // Fills in the columns and sets found[i]; leaves the columns of absent ids alone. `columns` may be empty.
  void read(const int64_t* ids, int64_t count, const std::vector<Column>& columns, unsigned char* found);
  // The number that was there.
  int64_t erase(const int64_t* ids, int64_t count);
  // With `snapshot`, the index is saved too, so that the next opening is fast.
  void flush(bool snapshot);
  // Up to `capacity` rows, and the cursor to go on from; 0 at the end. Every row that is there all the time comes at
  // least once; a row written meanwhile may come again, the later version later.
  struct Cursor {
    uint64_t sequence = 0;
    uint32_t record = 0;
  };
  int64_t scan(Cursor* cursor, int64_t capacity, int64_t* ids, const std::vector<Column>& columns);
  Stats stats();

 private:
  // By slot. Whoever reads holds the slabs of the moment, also when compaction deletes a file.
  using Slabs = std::vector<std::shared_ptr<Slab>>;
  using Wanted = RowIndex::Hit;  // a record that may be that of ids[position]
  struct Commit {                // all records of older slabs, and these of the slab `sequence`, have reached the disk
    uint64_t sequence = 0;
    uint32_t records = 0;
  };

  // The index as of some moment, so that opening need not read all slabs.
  struct SlabEntry {
    uint64_t sequence;
    uint32_t slot;
    uint32_t erasures;
    uint32_t damaged;
    uint32_t live_words;
  };
  struct Snapshot {
    Commit covered;  // the records that it knows of
    std::map<uint64_t, SlabEntry> slots;
    std::map<uint64_t, std::vector<uint64_t>> live;
    std::set<size_t> taken;
  };

  // store_open.cpp
  void open_or_create(int64_t slab_bytes);
  void read_format();
  void create(int64_t slab_bytes);
  void write_commit(const Commit& commit);
  std::vector<uint64_t> list_slabs() const;
  void open_slabs(const std::vector<uint64_t>& sequences, const Snapshot& snapshot);
  void drop_slab(uint64_t sequence);
  void replay(const Commit& covered);
  bool replay_slab(uint32_t slot, uint32_t first);
  void replay_record(uint32_t slot, uint32_t record, const unsigned char* bytes);
  void recount();
  void advance_index(bool finish);

  // store_snapshot.cpp
  Snapshot load_snapshot();
  void save_snapshot();

  // store_write.cpp
  std::vector<int64_t> distinct_by_hash(const int64_t* ids, int64_t count) const;
  void append(const std::vector<unsigned char>& records, uint32_t count);
  uint32_t room();
  void start_slab();
  void sync_slabs();
  void require_writable() const;
  void reclaim(int64_t written);
  void compact(int64_t budget);
  bool choose_victim();
  void finish_victim();
  void leave_damaged_slabs();

  // store_read.cpp
  void check_columns(const std::vector<Column>& columns) const;
  std::vector<int64_t> locate(const int64_t* ids, const std::vector<int64_t>& order);
  template <typename Hash>
  std::vector<Wanted> find(int64_t count, const Hash& hash);
  template <typename Visit>
  void fetch(const Slabs& slabs, std::vector<Wanted>& wanted, bool whole, const Visit& visit);

  uint32_t row_at(uint32_t slot, uint32_t record) const { return slot * format_.slab_records + record; }
  bool is_live(uint32_t row) const {
    const uint32_t slot = row / format_.slab_records;
    return slot < slabs_.size() && slabs_[slot] != nullptr && slabs_[slot]->is_live(row % format_.slab_records);
  }
  void set_live(uint32_t row, bool live) {
    slabs_[row / format_.slab_records]->set_live(row % format_.slab_records, live);
    rows_ += live ? 1 : -1;
  }

  Options options_;
  Format format_{};
  File lock_;
  IoPool pool_;

  std::mutex writer_;             // writes, flushes and compaction
  std::shared_mutex index_lock_;  // index_, slabs_ and the counts in them
  RowIndex index_;
  KnownRows known_;    // of the records of slabs_
  Slabs slabs_;        // empty slots are taken again
  uint32_t head_ = 0;  // slot of the slab that is appended to
  bool has_head_ = false;
  uint64_t next_sequence_ = 1;
  Commit commit_;
  int64_t since_snapshot_ = 0;  // bytes
  int64_t rows_ = 0;
  int64_t erasures_ = 0;

  bool compacting_ = false;
  uint32_t victim_ = 0;
  uint32_t victim_record_ = 0;

  // Counted without index_lock_.
  std::atomic<int64_t> records_{0};
  std::atomic<int64_t> bytes_read_{0};
  std::atomic<int64_t> bytes_written_{0};
  std::atomic<int64_t> bytes_compacted_{0};
  int64_t dropped_ = 0;
};

}  // namespace embcache
