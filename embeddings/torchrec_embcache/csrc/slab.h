#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "error.h"
#include "file.h"
#include "mapped_file.h"

namespace embcache {

// A slab file: a header, then records of one size, appended and never changed. A record is its head, the row, and
// padding to 8 bytes; its checksum also covers where it stands, so a record that turns up elsewhere is not taken.
enum RecordKind : uint32_t {
  kRow = 1,
  kErased = 2,  // the first 8 bytes of the row are the sequence of the newest slab at the time of the erasure
};

struct RecordHead {
  int64_t id;
  uint32_t kind;
  uint32_t checksum;
};

// What all slabs of a store have in common.
struct Format {
  uint64_t store;  // random, so that a slab of another store is not taken
  uint32_t row_bytes;
  uint32_t slab_records;

  int64_t record_bytes() const { return static_cast<int64_t>(sizeof(RecordHead)) + (row_bytes + 7) / 8 * 8; }
};

// A whole slab of another store: what is damaged may be dropped, the rows of others not.
class ForeignSlab : public StoreError {
 public:
  using StoreError::StoreError;
};

class Slab {
 public:
  static constexpr int64_t kHeaderBytes = 64;

  static std::string path(const std::string& folder, uint64_t sequence);
  // A new file; an error leaves none behind.
  static Slab create(const std::string& folder, const Format& format, uint64_t sequence);
  // Checks the header and takes every whole record for valid; see count_valid.
  static Slab open(const std::string& folder, const Format& format, uint64_t sequence, bool read_only);

  const File& file() const { return file_; }
  const MappedFile& mapped() const { return mapped_; }
  uint64_t sequence() const { return sequence_; }
  int64_t offset(uint32_t record) const { return kHeaderBytes + record * format_.record_bytes(); }
  void seal(unsigned char* record, uint32_t index) const;  // fills in the checksum
  bool is_valid(const unsigned char* record, uint32_t index) const;
  [[noreturn]] void throw_corrupt(uint32_t record, const std::string& what) const;

  uint32_t count = 0;     // records
  uint32_t erasures = 0;  // records of kind kErased
  bool damaged = false;   // has an unreadable record; is never compacted
  bool unsynced = false;

  // Which records are the row of their id, and how many.
  bool is_live(uint32_t record) const { return (live_bits_[record / 64] >> (record % 64) & 1) != 0; }
  uint32_t live() const { return live_; }
  void set_live(uint32_t record, bool live);
  std::vector<uint64_t>& live_bits() { return live_bits_; }
  void count_live();  // after a change of live_bits()

 private:
  Slab(File file, const Format& format, uint64_t sequence)
      : file_(std::move(file)),
        mapped_(file_.map(kHeaderBytes + format.slab_records * format.record_bytes())),
        format_(format),
        sequence_(sequence),
        live_bits_((uint64_t{format.slab_records} + 63) / 64) {}
  uint32_t checksum(const unsigned char* record, uint32_t index) const;

  File file_;
  MappedFile mapped_;
  Format format_;
  uint64_t sequence_;
  std::vector<uint64_t> live_bits_;
  uint32_t live_ = 0;
};

}  // namespace embcache
