#include "slab.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "crc32c.h"
#include "error.h"

namespace embcache {
namespace {

constexpr char kMagic[8] = {'E', 'M', 'B', 'S', 'L', 'A', 'B', '1'};

struct Header {
  char magic[8];
  uint64_t store;
  uint64_t sequence;
  uint32_t row_bytes;
  uint32_t slab_records;
  unsigned char zero[28];
  uint32_t checksum;
};
static_assert(sizeof(Header) == Slab::kHeaderBytes, "the header has no padding");

}  // namespace

std::string Slab::path(const std::string& folder, uint64_t sequence) {
  char name[40];
  std::snprintf(name, sizeof name, "/slab-%012" PRIu64 ".rows", sequence);
  return folder + name;
}

Slab Slab::create(const std::string& folder, const Format& format, uint64_t sequence) {
  Slab slab(File(path(folder, sequence), O_RDWR | O_CREAT | O_EXCL), format, sequence);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.store = format.store;
  header.sequence = sequence;
  header.row_bytes = format.row_bytes;
  header.slab_records = format.slab_records;
  header.checksum = crc32c(0, &header, offsetof(Header, checksum));
  try {
    slab.file_.write_at(&header, sizeof header, 0);
  } catch (const StoreError&) {
    ::unlink(slab.file_.path().c_str());
    throw;
  }
  slab.file_.advise_random();
  slab.unsynced = true;
  return slab;
}

Slab Slab::open(const std::string& folder, const Format& format, uint64_t sequence, bool read_only) {
  Slab slab(File(path(folder, sequence), read_only ? O_RDONLY : O_RDWR), format, sequence);
  Header header{};
  const bool whole = slab.file_.read_at(&header, sizeof header, 0) == sizeof header;
  const bool sound = whole && std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
                     header.checksum == crc32c(0, &header, offsetof(Header, checksum));
  if (sound && header.store != format.store) {
    throw ForeignSlab(Fault::kCorrupt, slab.file_.path() + ": is of another store; move it out of this folder");
  }
  if (!sound || header.sequence != sequence || header.row_bytes != format.row_bytes ||
      header.slab_records != format.slab_records) {
    throw StoreError(Fault::kCorrupt, slab.file_.path() + ": the header is damaged");
  }
  const int64_t records = (slab.file_.size() - kHeaderBytes) / format.record_bytes();
  slab.count = static_cast<uint32_t>(std::min<int64_t>(records, format.slab_records));
  slab.file_.advise_random();
  return slab;
}

uint32_t Slab::checksum(const unsigned char* record, uint32_t index) const {
  const uint64_t place[2] = {sequence_, index};
  uint32_t crc = crc32c(0, place, sizeof place);
  crc = crc32c(crc, record, offsetof(RecordHead, checksum));
  return crc32c(crc, record + sizeof(RecordHead), static_cast<size_t>(format_.record_bytes()) - sizeof(RecordHead));
}

void Slab::seal(unsigned char* record, uint32_t index) const {
  const uint32_t crc = checksum(record, index);
  std::memcpy(record + offsetof(RecordHead, checksum), &crc, sizeof crc);
}

bool Slab::is_valid(const unsigned char* record, uint32_t index) const {
  RecordHead head;
  std::memcpy(&head, record, sizeof head);
  return (head.kind == kRow || head.kind == kErased) && head.checksum == checksum(record, index);
}

void Slab::set_live(uint32_t record, bool live) {
  if (is_live(record) == live) return;
  live_bits_[record / 64] ^= uint64_t{1} << (record % 64);
  live_ += live ? 1 : -1;
}

void Slab::count_live() {
  live_ = 0;
  for (const uint64_t word : live_bits_) live_ += static_cast<uint32_t>(__builtin_popcountll(word));
}

void Slab::throw_corrupt(uint32_t record, const std::string& what) const {
  throw StoreError(Fault::kCorrupt, file_.path() + ": record " + std::to_string(record) + " at byte " +
                                        std::to_string(offset(record)) + " is damaged (checksum); " + what +
                                        " Restore the store from a checkpoint, or drop damaged rows with "
                                        "DiskStore.repair(folder)");
}

}  // namespace embcache
