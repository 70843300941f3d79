#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "radix_sort.h"
#include "row_store.h"

namespace embcache {
namespace {

constexpr int64_t kAppendBytes = 256 * 1024;  // of a call: as much as the nearest caches keep
constexpr uint32_t kAhead = 8;                // rows between the fetch of an index entry and its use
// Old versions may take a third of the disk space, so a table takes 1.5 times its rows.
constexpr double kGarbage = 1.0 / 3;
constexpr double kErasures = 1.0 / 4;
constexpr int64_t kCompactedPerWritten = 4;
constexpr int64_t kLeastCompacted = 1024;
constexpr int kSortedBits = 22;  // of hashes; hardly two rows of a batch share them

void prefetch_row(const std::vector<Column>& columns, int64_t position) {
  constexpr uint32_t kLine = 64;
  for (const Column& column : columns) {
    const unsigned char* row = column.data + position * column.width;
    for (uint32_t k = 0; k < column.width; k += kLine) __builtin_prefetch(row + k);
  }
}

}  // namespace

void RowStore::require_writable() const {
  if (options_.read_only) {
    throw StoreError(Fault::kReadOnly, options_.folder + ": the store is open with read_only=True; open it without");
  }
}

// Positions of distinct ids, the last of repeated ones, in the order of their hashes: neighbours in the index.
std::vector<int64_t> RowStore::distinct_by_hash(const int64_t* ids, int64_t count) const {
  std::vector<std::pair<uint64_t, int64_t>> hashes(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) hashes[i] = {hash_id(ids[i]), i};
  radix_sort(hashes, 64 - kSortedBits, 64, [](const std::pair<uint64_t, int64_t>& one) { return one.first; });
  const auto upper = [&](size_t k) { return hashes[k].first >> (64 - kSortedBits); };
  for (size_t first = 0, end = 0; first < hashes.size(); first = end) {  // by all bits, where some share these
    for (end = first + 1; end < hashes.size() && upper(end) == upper(first);) ++end;
    if (end - first > 1) std::sort(hashes.begin() + first, hashes.begin() + end);
  }
  std::vector<int64_t> order;
  order.reserve(hashes.size());
  for (size_t k = 0; k < hashes.size(); ++k) {
    if (k + 1 < hashes.size() && hashes[k + 1].first == hashes[k].first) continue;
    order.push_back(hashes[k].second);
  }
  return order;
}

void RowStore::start_slab() {
  uint32_t slot = 0;
  while (slot < slabs_.size() && slabs_[slot] != nullptr) ++slot;
  if ((uint64_t{slot} + 1) * format_.slab_records > kMaxRows) {
    throw StoreError(Fault::kFull, options_.folder + ": " + std::to_string(rows_) + " rows in " + std::to_string(slot) +
                                       " slabs are all that a store can hold; shard the table");
  }
  auto slab = std::make_shared<Slab>(Slab::create(options_.folder, format_, next_sequence_));
  const std::unique_lock<std::shared_mutex> lock(index_lock_);
  if (slot == slabs_.size()) slabs_.emplace_back();
  slabs_[slot] = std::move(slab);
  head_ = slot;
  has_head_ = true;
  ++next_sequence_;
}

// How many records the next append() can take.
uint32_t RowStore::room() {
  if (!has_head_ || slabs_[head_]->count == format_.slab_records) start_slab();
  const int64_t most = std::max<int64_t>(1, kAppendBytes / format_.record_bytes());
  return static_cast<uint32_t>(std::min<int64_t>(most, format_.slab_records - slabs_[head_]->count));
}

// Writes records to the head, without the index. After an error the file ends where it did.
void RowStore::append(const std::vector<unsigned char>& records, uint32_t count) {
  Slab& head = *slabs_[head_];
  const int64_t at = head.offset(head.count);
  try {
    head.file().write_at(records.data(), records.size(), at);
  } catch (const StoreError&) {
    try {
      head.file().truncate(at);
    } catch (const StoreError&) {  // the next opening cuts it off
    }
    throw;
  }
  head.unsynced = true;
  since_snapshot_ += static_cast<int64_t>(records.size());
  bytes_written_ += static_cast<int64_t>(records.size());
  records_ += count;
}

void RowStore::write(const int64_t* ids, int64_t count, const std::vector<Column>& columns) {
  const std::lock_guard<std::mutex> writer(writer_);
  require_writable();
  check_columns(columns);
  const std::vector<int64_t> order = distinct_by_hash(ids, count);
  const std::vector<int64_t> old = locate(ids, order);
  const int64_t record_bytes = format_.record_bytes();
  std::vector<unsigned char> buffer;
  for (size_t first = 0; first < order.size();) {
    const auto some = static_cast<uint32_t>(std::min<size_t>(room(), order.size() - first));
    Slab& head = *slabs_[head_];
    buffer.resize(some * record_bytes);  // the padding of records stays zero
    for (uint32_t k = 0; k < some; ++k) {
      unsigned char* record = buffer.data() + k * record_bytes;
      const int64_t position = order[first + k];
      if (k + kAhead < some) prefetch_row(columns, order[first + k + kAhead]);
      const RecordHead filled{ids[position], kRow, 0};
      std::memcpy(record, &filled, sizeof filled);
      unsigned char* to = record + sizeof filled;
      for (const Column& column : columns) {
        std::memcpy(to, column.data + position * column.width, column.width);
        to += column.width;
      }
      head.seal(record, head.count + k);
    }
    append(buffer, some);
    std::vector<KnownRows::Row> written(some);
    for (uint32_t k = 0; k < some; ++k) {
      const int64_t id = ids[order[first + k]];
      written[k] = {id, hash_id(id), row_at(head_, head.count + k)};
    }
    const std::unique_lock<std::shared_mutex> lock(index_lock_);
    for (uint32_t k = 0; k < some; ++k) {
      if (k + kAhead < some) index_.prefetch(written[k + kAhead].hash);
      const auto& [id, hash, row] = written[k];
      const int64_t before = old[first + k];
      if (before < 0) {
        index_.insert(hash, row);
      } else {
        index_.move(hash, static_cast<uint32_t>(before), row);
        set_live(static_cast<uint32_t>(before), false);
      }
      set_live(row, true);
    }
    known_.add(written, rows_);
    head.count += some;
    first += some;
  }
  reclaim(count);
}

void RowStore::advance_index(bool finish) {
  index_.advance([this](uint32_t row) { return is_live(row); }, index_lock_, finish);
}

// A full disk is the next write's to report: these rows are in.
void RowStore::reclaim(int64_t written) {
  try {
    advance_index(false);
    compact(std::max(kLeastCompacted, kCompactedPerWritten * written));
  } catch (const StoreError& error) {
    if (error.fault() != Fault::kDiskFull) throw;
  }
}

int64_t RowStore::erase(const int64_t* ids, int64_t count) {
  const std::lock_guard<std::mutex> writer(writer_);
  require_writable();
  const std::vector<int64_t> order = distinct_by_hash(ids, count);
  const std::vector<int64_t> old = locate(ids, order);
  const int64_t record_bytes = format_.record_bytes();
  std::vector<size_t> present;
  for (size_t k = 0; k < order.size(); ++k) {
    if (old[k] >= 0) present.push_back(k);
  }
  std::vector<unsigned char> buffer;
  for (size_t first = 0; first < present.size();) {
    const auto some = static_cast<uint32_t>(std::min<size_t>(room(), present.size() - first));
    Slab& head = *slabs_[head_];
    buffer.assign(some * record_bytes, 0);
    const uint64_t newest = next_sequence_ - 1;
    for (uint32_t k = 0; k < some; ++k) {
      unsigned char* record = buffer.data() + k * record_bytes;
      const RecordHead filled{ids[order[present[first + k]]], kErased, 0};
      std::memcpy(record, &filled, sizeof filled);
      std::memcpy(record + sizeof filled, &newest, sizeof newest);
      head.seal(record, head.count + k);
    }
    append(buffer, some);
    const std::unique_lock<std::shared_mutex> lock(index_lock_);
    for (uint32_t k = 0; k < some; ++k) {
      const auto row = static_cast<uint32_t>(old[present[first + k]]);
      index_.remove(hash_id(ids[order[present[first + k]]]), row);
      set_live(row, false);
    }
    head.count += some;
    head.erasures += some;
    erasures_ += some;
    first += some;
  }
  reclaim(count);
  return static_cast<int64_t>(present.size());
}

void RowStore::sync_slabs() {
  bool any = false;
  for (const std::shared_ptr<Slab>& slab : slabs_) {
    if (slab == nullptr || !slab->unsynced) continue;
    slab->file().sync();
    slab->unsynced = false;
    any = true;
  }
  if (any) sync_folder(options_.folder);
}

void RowStore::flush(bool snapshot) {
  const std::lock_guard<std::mutex> writer(writer_);
  require_writable();
  sync_slabs();
  if (has_head_) {
    const Commit commit{slabs_[head_]->sequence(), slabs_[head_]->count};
    if (commit.sequence != commit_.sequence || commit.records != commit_.records) write_commit(commit);
  }
  constexpr int64_t kLeast = 256 * 1024 * 1024;
  if (since_snapshot_ > (snapshot ? 0 : std::max(kLeast, 8 * index_.bytes()))) save_snapshot();
}

// Takes the slab with the fewest records that are still needed; with many erasures the oldest, since an erasure must
// stay as long as an older version may.
bool RowStore::choose_victim() {
  const int64_t garbage = records_ - erasures_ - rows_;
  const bool erased = erasures_ > kErasures * static_cast<double>(records_);
  if (!erased && garbage <= kGarbage * static_cast<double>(records_)) return false;
  bool any = false;
  for (uint32_t slot = 0; slot < slabs_.size(); ++slot) {
    const Slab* slab = slabs_[slot].get();
    if (slab == nullptr || slab->damaged || (has_head_ && slot == head_)) continue;
    if (slab->live() + slab->erasures == slab->count && !erased) continue;
    const Slab* best = slabs_[victim_].get();
    if (!any || (erased ? slab->sequence() < best->sequence()
                        : slab->live() + slab->erasures < best->live() + best->erasures)) {
      victim_ = slot;
      any = true;
    }
  }
  victim_record_ = 0;
  return any;
}

// Moves up to `budget` records out of slabs with much garbage.
void RowStore::compact(int64_t budget) {
  const int64_t record_bytes = format_.record_bytes();
  const int64_t at_once = std::max<int64_t>(1, kAppendBytes / record_bytes);
  std::vector<unsigned char> from;
  std::vector<unsigned char> to;
  while (budget > 0) {
    if (!compacting_ && (options_.repair || !choose_victim())) return;
    compacting_ = true;
    Slab& victim = *slabs_[victim_];
    if (victim_record_ == victim.count || (victim.live() == 0 && victim.erasures == 0)) {
      budget -= 1;
      finish_victim();
      continue;
    }
    uint64_t oldest_other = UINT64_MAX;
    for (const std::shared_ptr<Slab>& slab : slabs_) {
      if (slab != nullptr && slab.get() != &victim) oldest_other = std::min(oldest_other, slab->sequence());
    }
    const auto room_now = room();  // may start a slab: before anything is read
    const auto some = static_cast<uint32_t>(
        std::min<int64_t>({int64_t{victim.count} - victim_record_, at_once, budget, int64_t{room_now}}));
    from.resize(some * record_bytes);
    const size_t got = victim.file().read_at(from.data(), from.size(), victim.offset(victim_record_));
    if (got < from.size()) std::fill(from.begin() + static_cast<int64_t>(got), from.end(), 0);
    bytes_read_ += static_cast<int64_t>(got);
    Slab& head = *slabs_[head_];
    to.clear();
    std::vector<std::pair<int64_t, uint32_t>> moved;  // id, old row
    uint32_t erasures = 0;
    uint32_t count = 0;
    for (uint32_t k = 0; k < some; ++k) {
      const unsigned char* record = from.data() + k * record_bytes;
      const bool valid = victim.is_valid(record, victim_record_ + k);
      if (!valid && options_.repair) continue;
      if (!valid) {
        victim.damaged = true;  // what reads its row says so
        compacting_ = false;
        break;
      }
      RecordHead filled;
      std::memcpy(&filled, record, sizeof filled);
      const uint32_t row = row_at(victim_, victim_record_ + k);
      bool needed;
      if (filled.kind == kRow) {
        needed = victim.is_live(victim_record_ + k);
        if (needed) moved.emplace_back(filled.id, row);
      } else {
        uint64_t newest;
        std::memcpy(&newest, record + sizeof filled, sizeof newest);
        needed = oldest_other <= newest;
        if (needed) ++erasures;
      }
      if (!needed) continue;
      to.insert(to.end(), record, record + record_bytes);
      head.seal(to.data() + count * record_bytes, head.count + count);
      if (filled.kind == kErased) moved.emplace_back(0, UINT32_MAX);
      ++count;
    }
    if (count > 0) {
      append(to, count);
      bytes_compacted_ += static_cast<int64_t>(to.size());
      const std::unique_lock<std::shared_mutex> lock(index_lock_);
      for (uint32_t k = 0; k < count; ++k) {
        if (moved[k].second == UINT32_MAX) continue;
        index_.move(hash_id(moved[k].first), moved[k].second, row_at(head_, head.count + k));
        set_live(moved[k].second, false);
        set_live(row_at(head_, head.count + k), true);
      }
      head.count += count;
      head.erasures += erasures;
      erasures_ += erasures;
    }
    if (!compacting_) return;
    victim_record_ += some;
    budget -= some;
  }
}

// Moves what can be read out of damaged slabs, and deletes them.
void RowStore::leave_damaged_slabs() {
  for (uint32_t slot = 0; slot < slabs_.size(); ++slot) {
    if (slabs_[slot] == nullptr || !slabs_[slot]->damaged) continue;
    if (slot == head_) start_slab();
    victim_ = slot;
    victim_record_ = 0;
    compacting_ = true;
    while (slabs_[slot] != nullptr && slabs_[slot]->damaged) compact(INT64_MAX);
  }
}

// Deletes the victim's file once its rows have reached the disk elsewhere.
void RowStore::finish_victim() {
  sync_slabs();
  const std::unique_lock<std::shared_mutex> lock(index_lock_);
  const std::string path = slabs_[victim_]->file().path();
  if (::unlink(path.c_str()) != 0) throw_system_error("delete", path, errno);
  records_ -= slabs_[victim_]->count;
  erasures_ -= slabs_[victim_]->erasures;
  slabs_[victim_].reset();
  known_.forget(row_at(victim_, 0), row_at(victim_, 0) + format_.slab_records);
  compacting_ = false;
}

}  // namespace embcache
