#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "crc32c.h"
#include "row_store.h"

namespace embcache {
namespace {

constexpr char kMagic[8] = {'E', 'M', 'B', 'I', 'N', 'D', 'X', '2'};
constexpr size_t kBuffer = 1024 * 1024;

struct Header {
  char magic[8];
  uint64_t store;
  uint64_t sequence;
  uint32_t records;
  uint32_t slabs;
  IndexRun::Seal run;
};

// Buffered, with a running checksum over everything.
class Writer {
 public:
  explicit Writer(const std::string& path) : file_(path, O_WRONLY | O_CREAT | O_TRUNC) { buffer_.reserve(kBuffer); }
  void put(const void* data, size_t size) {
    if (size == 0) return;
    checksum_ = crc32c(checksum_, data, size);
    if (buffer_.size() + size > kBuffer) spill();
    const auto* bytes = static_cast<const unsigned char*>(data);
    buffer_.insert(buffer_.end(), bytes, bytes + size);
  }
  void finish() {
    const uint32_t checksum = checksum_;
    put(&checksum, sizeof checksum);
    spill();
    file_.sync();
  }

 private:
  void spill() {
    file_.write_at(buffer_.data(), buffer_.size(), at_);
    at_ += static_cast<int64_t>(buffer_.size());
    buffer_.clear();
  }

  File file_;
  std::vector<unsigned char> buffer_;
  int64_t at_ = 0;
  uint32_t checksum_ = 0;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path, O_RDONLY) {}
  bool get(void* data, size_t size) {
    if (size == 0) return true;
    auto* to = static_cast<unsigned char*>(data);
    for (size_t done = 0; done < size;) {
      if (next_ == buffer_.size()) {
        buffer_.resize(kBuffer);
        buffer_.resize(file_.read_at(buffer_.data(), kBuffer, at_));
        at_ += static_cast<int64_t>(buffer_.size());
        next_ = 0;
        if (buffer_.empty()) return false;
      }
      const size_t some = std::min(size - done, buffer_.size() - next_);
      std::memcpy(to + done, buffer_.data() + next_, some);
      next_ += some;
      done += some;
    }
    checksum_ = crc32c(checksum_, data, size);
    return true;
  }
  // Whether the checksum at the end of the file is that of the rest; nothing of it is taken before.
  static bool is_whole(const std::string& path) {
    Reader reader(path);
    const int64_t size = reader.file_.size() - static_cast<int64_t>(sizeof(uint32_t));
    std::vector<unsigned char> part(kBuffer);
    for (int64_t done = 0; done < size;) {
      const auto some = static_cast<size_t>(std::min<int64_t>(size - done, kBuffer));
      if (!reader.get(part.data(), some)) return false;
      done += static_cast<int64_t>(some);
    }
    const uint32_t expected = reader.checksum_;
    uint32_t stored = 0;
    return size > 0 && reader.get(&stored, sizeof stored) && stored == expected;
  }

 private:
  File file_;
  std::vector<unsigned char> buffer_;
  size_t next_ = 0;
  int64_t at_ = 0;
  uint32_t checksum_ = 0;
};

}  // namespace

// Called with everything on the disk: it covers what commit_ covers.
void RowStore::save_snapshot() {
  advance_index(true);
  const std::string path = options_.folder + "/store.index";
  const std::string partial = path + ".partial";
  const IndexRun::Seal run = index_.seal();
  try {
    Writer writer(partial);
    Header header{};
    header.run = run;
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.store = format_.store;
    header.sequence = commit_.sequence;
    header.records = commit_.records;
    for (const std::shared_ptr<Slab>& slab : slabs_) header.slabs += slab != nullptr ? 1 : 0;
    writer.put(&header, sizeof header);
    for (uint32_t slot = 0; slot < slabs_.size(); ++slot) {
      if (slabs_[slot] == nullptr) continue;
      Slab& slab = *slabs_[slot];
      const std::vector<uint64_t>& live = slab.live_bits();
      const auto words = static_cast<uint32_t>(live.size());
      const SlabEntry entry{slab.sequence(), slot, slab.erasures, slab.damaged ? 1u : 0u, words};
      writer.put(&entry, sizeof entry);
      writer.put(live.data(), live.size() * sizeof(uint64_t));
    }
    index_.save([&writer](const void* data, size_t size) { writer.put(data, size); });
    writer.finish();
  } catch (const StoreError&) {
    ::unlink(partial.c_str());
    throw;
  }
  if (::rename(partial.c_str(), path.c_str()) != 0) throw_system_error("rename", path, errno);
  sync_folder(options_.folder);
  index_.keep(run);
  since_snapshot_ = 0;
}

// A missing or damaged snapshot is none: then everything is replayed. Rows of slabs that compaction has deleted since
// stand in later ones, which are replayed.
RowStore::Snapshot RowStore::load_snapshot() {
  const std::string path = options_.folder + "/store.index";
  if (::access(path.c_str(), R_OK) != 0 || !Reader::is_whole(path)) return {};
  Reader reader(path);
  Header header{};
  Snapshot snapshot;
  bool good = reader.get(&header, sizeof header) && std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
              header.store == format_.store;
  snapshot.covered = {header.sequence, header.records};
  for (uint32_t k = 0; good && k < header.slabs; ++k) {
    SlabEntry entry{};
    good = reader.get(&entry, sizeof entry) && entry.live_words == (uint64_t{format_.slab_records} + 63) / 64;
    if (!good) break;
    std::vector<uint64_t>& live = snapshot.live[entry.sequence];
    live.resize(entry.live_words);
    good = reader.get(live.data(), live.size() * sizeof(uint64_t));
    snapshot.slots[entry.sequence] = entry;
    snapshot.taken.insert(entry.slot);
  }
  const auto source = [&reader](void* data, size_t size) { return reader.get(data, size); };
  if (good && index_.load(header.run, source)) {
    index_.keep(header.run);
    return snapshot;
  }
  index_.clear();
  return {};
}

}  // namespace embcache
