#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <random>

#include "crc32c.h"
#include "row_store.h"

namespace embcache {
namespace {

constexpr char kCommitMagic[8] = {'E', 'M', 'B', 'S', 'T', 'O', 'R', '1'};
constexpr int64_t kReplayBytes = 4 * 1024 * 1024;

struct CommitFile {
  char magic[8];
  uint64_t store;
  uint64_t sequence;
  uint32_t records;
  uint32_t row_bytes;
  uint32_t slab_records;
  uint32_t checksum;
};
static_assert(sizeof(CommitFile) == 40, "the file has no padding");

std::string commit_path(const std::string& folder) { return folder + "/store.commit"; }

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

RowStore::RowStore(const Options& options)
    : options_(options), pool_(options.io_threads), index_(options.folder, options.index_entries, options.read_only) {
  const std::string& folder = options_.folder;
  const std::string lock_path = folder + "/store.lock";
  if (options_.read_only) {
    if (!exists(commit_path(folder))) throw StoreError(Fault::kInput, folder + ": there is no store");
    lock_ = File(lock_path, O_RDONLY);
  } else {
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) throw_system_error("make folder", folder, errno);
    // Files that can be written do not say that the folder takes the next one, and rows would be written until then.
    if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
      throw_system_error("write in", folder, errno);
    }
    lock_ = File(lock_path, O_RDWR | O_CREAT);
  }
  if (!lock_.try_lock(options_.read_only)) {
    throw StoreError(Fault::kLocked, folder +
                                         ": another process has this store open; end it, or open both with "
                                         "read_only=True");
  }
  if (exists(commit_path(folder))) {
    read_format();
  } else {
    create(options_.slab_bytes);
  }
  const std::vector<uint64_t> sequences = list_slabs();
  Snapshot snapshot;
  if (!options_.repair) snapshot = load_snapshot();
  if (snapshot.slots.empty()) index_.keep({});
  open_slabs(sequences, snapshot);
  replay(snapshot.covered);
  recount();
  if (options_.repair) {
    leave_damaged_slabs();
    flush(true);
    options_.repair = false;
  }
}

void RowStore::create(int64_t slab_bytes) {
  if (!list_slabs().empty()) {
    throw StoreError(Fault::kCorrupt, options_.folder + ": slabs without " + commit_path(options_.folder) +
                                          "; restore the store from a checkpoint, or empty the folder");
  }
  std::random_device random;
  format_.store = (uint64_t{random()} << 32) | random();
  format_.row_bytes = options_.row_bytes;
  const int64_t records = std::max<int64_t>(1, slab_bytes / format_.record_bytes());
  format_.slab_records = static_cast<uint32_t>(std::min<int64_t>(records, kMaxRows));
  write_commit(Commit{});
}

void RowStore::write_commit(const Commit& commit) {
  CommitFile file{};
  std::memcpy(file.magic, kCommitMagic, sizeof kCommitMagic);
  file.store = format_.store;
  file.sequence = commit.sequence;
  file.records = commit.records;
  file.row_bytes = format_.row_bytes;
  file.slab_records = format_.slab_records;
  file.checksum = crc32c(0, &file, offsetof(CommitFile, checksum));
  replace_file(commit_path(options_.folder), &file, sizeof file);
  sync_folder(options_.folder);
  commit_ = commit;
}

void RowStore::read_format() {
  const std::string path = commit_path(options_.folder);
  CommitFile file{};
  const bool whole = File(path, O_RDONLY).read_at(&file, sizeof file, 0) == sizeof file;
  if (!whole || std::memcmp(file.magic, kCommitMagic, sizeof kCommitMagic) != 0 ||
      file.checksum != crc32c(0, &file, offsetof(CommitFile, checksum)) || file.slab_records == 0) {
    throw StoreError(Fault::kCorrupt, path + ": damaged (checksum); restore the store from a checkpoint");
  }
  if (file.row_bytes != options_.row_bytes) {
    throw StoreError(Fault::kInput, options_.folder + ": the store has rows of " + std::to_string(file.row_bytes) +
                                        " bytes, the table of " + std::to_string(options_.row_bytes) +
                                        "; give the table another folder");
  }
  format_.store = file.store;
  format_.row_bytes = file.row_bytes;
  format_.slab_records = file.slab_records;
  commit_ = {file.sequence, file.records};
}

std::vector<uint64_t> RowStore::list_slabs() const {
  std::vector<uint64_t> sequences;
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> folder(::opendir(options_.folder.c_str()), close);
  if (folder == nullptr) throw_system_error("list", options_.folder, errno);
  while (const dirent* entry = ::readdir(folder.get())) {
    uint64_t sequence;
    // sscanf takes slab-3.rows.bak, too, for number 3: only the name that the number makes is a slab's.
    if (std::sscanf(entry->d_name, "slab-%" SCNu64 ".rows", &sequence) == 1 &&
        Slab::path("", sequence) == std::string("/") + entry->d_name) {
      sequences.push_back(sequence);
    }
  }
  std::sort(sequences.begin(), sequences.end());
  return sequences;
}

// Puts each slab in the slot that the snapshot's row numbers mean, and new ones in free slots.
void RowStore::open_slabs(const std::vector<uint64_t>& sequences, const Snapshot& snapshot) {
  for (const uint64_t sequence : sequences) {
    next_sequence_ = std::max(next_sequence_, sequence + 1);
    std::shared_ptr<Slab> slab;
    try {
      slab = std::make_shared<Slab>(Slab::open(options_.folder, format_, sequence, options_.read_only));
    } catch (const ForeignSlab&) {
      throw;
    } catch (const StoreError& error) {
      // Not committed: the process or the machine went down while it made the file.
      const bool torn = error.fault() == Fault::kCorrupt && sequence > commit_.sequence && sequence == sequences.back();
      if (!torn && !(error.fault() == Fault::kCorrupt && options_.repair)) throw;
      drop_slab(sequence);
      continue;
    }
    if (slab->count < format_.slab_records && sequence != sequences.back() && !options_.repair &&
        sequence < commit_.sequence) {
      slab->throw_corrupt(slab->count, "the file is shorter than it was.");
    }
    const auto known = snapshot.slots.find(sequence);
    size_t slot = 0;
    if (known != snapshot.slots.end()) {
      slot = known->second.slot;
      slab->erasures = known->second.erasures;
      slab->damaged = known->second.damaged != 0;
      slab->live_bits() = snapshot.live.at(sequence);
      slab->count_live();
    } else {
      while (slot < slabs_.size() && (slabs_[slot] != nullptr || snapshot.taken.count(slot) != 0)) ++slot;
    }
    if (slot >= slabs_.size()) slabs_.resize(slot + 1);
    slabs_[slot] = std::move(slab);
  }
}

void RowStore::drop_slab(uint64_t sequence) {
  ++dropped_;
  if (!options_.read_only) ::unlink(Slab::path(options_.folder, sequence).c_str());
}

// Brings the index up to date with the records after `covered`, in the order in which they were written. Behind the
// committed ones the first that is not whole ends the store: a process or a machine went down there.
void RowStore::replay(const Commit& covered) {
  std::vector<uint32_t> order;
  for (uint32_t slot = 0; slot < slabs_.size(); ++slot) {
    if (slabs_[slot] != nullptr) order.push_back(slot);
  }
  std::sort(order.begin(), order.end(),
            [this](uint32_t a, uint32_t b) { return slabs_[a]->sequence() < slabs_[b]->sequence(); });
  bool ended = false;
  for (const uint32_t slot : order) {
    const uint64_t sequence = slabs_[slot]->sequence();
    if (ended) {
      drop_slab(sequence);
      slabs_[slot].reset();
      continue;
    }
    if (sequence >= covered.sequence) {
      ended = !replay_slab(slot, sequence == covered.sequence ? covered.records : 0);
    }
    head_ = slot;
    has_head_ = true;
  }
}

// False if the slab ends in a torn record, which is cut off.
bool RowStore::replay_slab(uint32_t slot, uint32_t first) {
  Slab& slab = *slabs_[slot];
  const int64_t record_bytes = format_.record_bytes();
  const uint32_t committed = slab.sequence() < commit_.sequence    ? slab.count
                             : slab.sequence() == commit_.sequence ? commit_.records
                                                                   : 0;
  if (slab.count < committed && !options_.repair) slab.throw_corrupt(slab.count, "the file is shorter than it was.");
  slab.file().advise_sequential();
  std::vector<unsigned char> buffer;
  uint32_t end = slab.count;
  bool torn = slab.file().size() != slab.offset(slab.count) && slab.count < format_.slab_records;
  const auto at_once = static_cast<uint32_t>(std::max<int64_t>(1, kReplayBytes / record_bytes));
  for (uint32_t start = first; start < end; start += at_once) {
    const uint32_t some = std::min(at_once, end - start);
    buffer.resize(static_cast<size_t>(some * record_bytes));
    const size_t got = slab.file().read_at(buffer.data(), buffer.size(), slab.offset(start));
    std::fill(buffer.begin() + static_cast<int64_t>(got), buffer.end(), 0);
    for (uint32_t k = 0; k < some; ++k) {
      const unsigned char* record = buffer.data() + k * record_bytes;
      if (slab.is_valid(record, start + k)) {
        replay_record(slot, start + k, record);
      } else if (options_.repair) {
        ++dropped_;
        slab.damaged = true;
      } else if (start + k < committed) {
        slab.throw_corrupt(start + k, "it was committed.");
      } else {
        end = start + k;
        torn = true;
        break;
      }
    }
    advance_index(false);
  }
  slab.file().advise_random();
  if (!torn) return true;
  ++dropped_;
  slab.count = end;
  if (!options_.read_only) slab.file().truncate(slab.offset(end));
  return options_.repair;
}

void RowStore::replay_record(uint32_t slot, uint32_t record, const unsigned char* bytes) {
  RecordHead head;
  std::memcpy(&head, bytes, sizeof head);
  const uint64_t hash = hash_id(head.id);
  uint32_t old = 0;
  bool known = false;
  index_.find(hash, [&](uint32_t row) {
    if (known || !is_live(row)) return;
    const Slab& slab = *slabs_[row / format_.slab_records];
    int64_t id = 0;
    const size_t got = slab.file().read_at(&id, sizeof id, slab.offset(row % format_.slab_records));
    known = got == sizeof id && id == head.id;
    old = row;
  });
  if (known) set_live(old, false);
  if (head.kind == kErased) {
    ++slabs_[slot]->erasures;
    if (known) index_.remove(hash, old);
    return;
  }
  const uint32_t row = row_at(slot, record);
  if (known) {
    index_.move(hash, old, row);
  } else {
    index_.insert(hash, row);
  }
  set_live(row, true);
}

void RowStore::recount() {
  rows_ = 0;
  for (const std::shared_ptr<Slab>& slab : slabs_) {
    if (slab == nullptr) continue;
    rows_ += slab->live();
    records_ += slab->count;
    erasures_ += slab->erasures;
  }
  // What is in the page cache only must reach the disk before the next commit says so.
  for (const std::shared_ptr<Slab>& slab : slabs_) {
    if (slab != nullptr && slab->sequence() >= commit_.sequence) slab->unsynced = true;
  }
}

}  // namespace embcache
