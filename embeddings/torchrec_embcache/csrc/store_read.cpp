#include <algorithm>
#include <cstring>
#include <numeric>

#include "radix_sort.h"
#include "row_store.h"

namespace embcache {
namespace {

constexpr int64_t kGapBytes = 2 * 1024;     // reading on is cheaper than another call
constexpr int64_t kReadBytes = 256 * 1024;  // of one call
constexpr int64_t kShare = 64;              // rows that are worth another thread
// Rows whose lines are fetched one right after the other: each may wait for the address of its page, and those of
// neighbours wait together. So many are on their way at least, twice as many at most.
constexpr int64_t kTogether = 16;
constexpr int64_t kScanBytes = 1024 * 1024;

}  // namespace

void RowStore::check_columns(const std::vector<Column>& columns) const {
  const uint64_t width = std::accumulate(columns.begin(), columns.end(), uint64_t{0},
                                         [](uint64_t sum, const Column& column) { return sum + column.width; });
  if (width != format_.row_bytes) {
    throw StoreError(Fault::kInput, options_.folder + ": rows of " + std::to_string(width) + " bytes, the store has " +
                                        std::to_string(format_.row_bytes));
  }
}

// Calls visit(wanted, slab, record number, bytes) for each, from several threads, in the order of the disk within each.
// Bytes past the end of a file are zero.
template <typename Visit>
void RowStore::fetch(const Slabs& slabs, std::vector<Wanted>& wanted, bool whole, const Visit& visit) {
  uint32_t rows = 0;  // all bits of any
  for (const Wanted& one : wanted) rows |= one.row;
  const int bits = rows == 0 ? 0 : 32 - __builtin_clz(rows);
  radix_sort(wanted, 0, bits, [](const Wanted& one) { return uint64_t{one.row}; });
  const int64_t needed = whole ? format_.record_bytes() : static_cast<int64_t>(sizeof(RecordHead));
  const auto slot_of = [&](int64_t k) { return wanted[k].row / format_.slab_records; };
  const auto record_of = [&](int64_t k) { return wanted[k].row % format_.slab_records; };
  pool_.run(static_cast<int64_t>(wanted.size()), kShare, [&](int64_t begin, int64_t end) {
    int64_t bytes_read = 0;
    auto room = static_cast<size_t>(needed);
    std::unique_ptr<unsigned char[]> buffer(new unsigned char[room]);
    const auto prefetch = [&](int64_t k) {
      const Slab& slab = *slabs[slot_of(k)];
      slab.mapped().prefetch(static_cast<size_t>(needed), slab.offset(record_of(k)));
    };
    int64_t fetched = begin;
    for (int64_t first = begin; first < end;) {
      fetched = std::max(fetched, first);
      if (fetched - first < kTogether) {
        for (const int64_t stop = std::min(end, fetched + kTogether); fetched < stop; ++fetched) prefetch(fetched);
      }
      const Slab& slab = *slabs[slot_of(first)];
      const int64_t start = slab.offset(record_of(first));
      if (slab.mapped().read_at(buffer.get(), static_cast<size_t>(needed), start)) {
        bytes_read += needed;
        visit(wanted[first], slab, record_of(first), buffer.get());
        ++first;
        continue;
      }
      int64_t stop = start + needed;
      int64_t last = first;
      for (; last + 1 < end && slot_of(last + 1) == slot_of(first); ++last) {
        const int64_t next = slab.offset(record_of(last + 1));
        if (next - stop > kGapBytes || next + needed - start > kReadBytes) break;
        stop = next + needed;
      }
      const auto size = static_cast<size_t>(stop - start);
      if (size > room) buffer.reset(new unsigned char[room = size]);
      const size_t got = slab.file().read_at(buffer.get(), size, start);
      bytes_read += static_cast<int64_t>(got);
      std::memset(buffer.get() + got, 0, size - got);
      for (; first <= last; ++first) {
        visit(wanted[first], slab, record_of(first), buffer.get() + (slab.offset(record_of(first)) - start));
      }
    }
    bytes_read_ += bytes_read;
  });
}

// The records that may be those of the hashes; hold index_lock_.
template <typename Hash>
std::vector<RowStore::Wanted> RowStore::find(int64_t count, const Hash& hash) {
  std::vector<Wanted> wanted;
  index_.find(count, hash, pool_, wanted);
  const auto dead = [this](const Wanted& one) { return !is_live(one.row); };
  wanted.erase(std::remove_if(wanted.begin(), wanted.end(), dead), wanted.end());
  return wanted;
}

void RowStore::read(const int64_t* ids, int64_t count, const std::vector<Column>& columns, unsigned char* found) {
  if (!columns.empty()) check_columns(columns);
  std::vector<Wanted> wanted;
  std::vector<unsigned char> damaged(static_cast<size_t>(count), 0);
  std::memset(found, 0, static_cast<size_t>(count));
  Slabs slabs;
  {
    const std::shared_lock<std::shared_mutex> lock(index_lock_);
    slabs = slabs_;
    wanted = find(count, [ids](int64_t i) { return hash_id(ids[i]); });
  }
  std::vector<unsigned char> own(wanted.size(), 0);  // whether the record is that of the id
  fetch(slabs, wanted, true, [&](const Wanted& one, const Slab& slab, uint32_t record, const unsigned char* bytes) {
    int64_t id;
    std::memcpy(&id, bytes, sizeof id);
    if (!slab.is_valid(bytes, record)) {
      damaged[one.position] = 1;
    } else if (id == ids[one.position]) {
      found[one.position] = 1;
      own[static_cast<size_t>(&one - wanted.data())] = 1;
      const unsigned char* from = bytes + sizeof(RecordHead);
      for (const Column& column : columns) {
        std::memcpy(column.data + one.position * column.width, from, column.width);
        from += column.width;
      }
    }
  });
  // The id may be what is damaged: then the row is not absent, it cannot be told.
  for (const Wanted& one : wanted) {
    if (damaged[one.position] == 0 || found[one.position] != 0) continue;
    slabs[one.row / format_.slab_records]->throw_corrupt(
        one.row % format_.slab_records, "the row of id " + std::to_string(ids[one.position]) + " cannot be read.");
  }
  std::vector<KnownRows::Row> known;
  known.reserve(wanted.size());
  const std::shared_lock<std::shared_mutex> lock(index_lock_);
  for (size_t k = 0; k < wanted.size(); ++k) {
    const auto [row, position] = wanted[k];
    const uint32_t slot = row / format_.slab_records;
    if (own[k] != 0 && slabs_[slot] == slabs[slot]) known.push_back({ids[position], hash_id(ids[position]), row});
  }
  known_.add(known, rows_);
}

// The row number of each ids[order[k]], -1 if it has none. Only the writer may call it: nothing moves meanwhile.
std::vector<int64_t> RowStore::locate(const int64_t* ids, const std::vector<int64_t>& order) {
  std::vector<Wanted> wanted;
  std::vector<int64_t> rows;
  std::vector<int64_t> asked;  // places in order of those that are not known
  Slabs slabs;
  {
    const std::shared_lock<std::shared_mutex> lock(index_lock_);
    slabs = slabs_;
    known_.find(ids, order, rows);
    for (size_t k = 0; k < order.size(); ++k) {
      if (rows[k] >= 0 && is_live(static_cast<uint32_t>(rows[k]))) continue;
      rows[k] = -1;
      asked.push_back(static_cast<int64_t>(k));
    }
    wanted = find(static_cast<int64_t>(asked.size()), [&](int64_t k) { return hash_id(ids[order[asked[k]]]); });
  }
  fetch(slabs, wanted, false, [&](const Wanted& one, const Slab&, uint32_t, const unsigned char* bytes) {
    int64_t id;
    std::memcpy(&id, bytes, sizeof id);
    const int64_t k = asked[one.position];
    if (id == ids[order[k]]) rows[k] = one.row;
  });
  return rows;
}

int64_t RowStore::scan(Cursor* cursor, int64_t capacity, int64_t* ids, const std::vector<Column>& columns) {
  check_columns(columns);
  const int64_t record_bytes = format_.record_bytes();
  std::vector<unsigned char> buffer;
  std::vector<uint32_t> live;
  int64_t filled = 0;
  while (filled < capacity) {
    std::shared_ptr<Slab> slab;
    uint32_t slot = 0;
    uint32_t end = 0;
    {
      const std::shared_lock<std::shared_mutex> lock(index_lock_);
      for (uint32_t k = 0; k < slabs_.size(); ++k) {
        if (slabs_[k] == nullptr || slabs_[k]->sequence() < cursor->sequence) continue;
        if (slab == nullptr || slabs_[k]->sequence() < slab->sequence()) {
          slab = slabs_[k];
          slot = k;
        }
      }
      if (slab == nullptr) break;
      end = slab->count;
    }
    const uint32_t first = slab->sequence() == cursor->sequence ? cursor->record : 0;
    *cursor = {slab->sequence(), first};
    if (first >= end) {
      *cursor = {slab->sequence() + 1, 0};
      continue;
    }
    const auto some = static_cast<uint32_t>(
        std::min<int64_t>({int64_t{end} - first, capacity - filled, std::max<int64_t>(1, kScanBytes / record_bytes)}));
    buffer.resize(static_cast<size_t>(some * record_bytes));
    if (slab->file().read_at(buffer.data(), buffer.size(), slab->offset(first)) != buffer.size()) {
      slab->throw_corrupt(first, "the file is shorter than it was.");
    }
    bytes_read_ += static_cast<int64_t>(buffer.size());
    {
      const std::shared_lock<std::shared_mutex> lock(index_lock_);
      live.clear();
      for (uint32_t k = 0; k < some; ++k) {
        const bool valid = slab->is_valid(buffer.data() + k * record_bytes, first + k);
        if (!valid) slab->throw_corrupt(first + k, "the scan stops here.");
        // A slab that compaction has deleted may have left its slot to another.
        if (slabs_[slot] == slab && slab->is_live(first + k)) live.push_back(k);
      }
    }
    for (const uint32_t k : live) {
      const unsigned char* record = buffer.data() + k * record_bytes;
      std::memcpy(&ids[filled], record, sizeof(int64_t));
      const unsigned char* from = record + sizeof(RecordHead);
      for (const Column& column : columns) {
        std::memcpy(column.data + filled * column.width, from, column.width);
        from += column.width;
      }
      ++filled;
    }
    cursor->record = first + some;
  }
  return filled;
}

Stats RowStore::stats() {
  const std::shared_lock<std::shared_mutex> lock(index_lock_);
  Stats stats{};
  stats.rows = rows_;
  stats.records = records_;
  for (const std::shared_ptr<Slab>& slab : slabs_) {
    if (slab == nullptr) continue;
    ++stats.slabs;
    stats.disk_bytes += slab->offset(slab->count);
  }
  stats.disk_bytes += index_.disk_bytes();
  stats.index_bytes = index_.bytes();
  stats.bytes_read = bytes_read_;
  stats.bytes_written = bytes_written_;
  stats.bytes_compacted = bytes_compacted_;
  stats.dropped = dropped_;
  return stats;
}

}  // namespace embcache
