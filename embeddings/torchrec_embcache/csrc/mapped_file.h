#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace embcache {

// A file's bytes as memory: those in the page cache cost a copy, and no call of the system. Never fails: what cannot be
// had so is left to File::read_at, which says why. A handler of SIGBUS sees to that, of whole processes, as the system
// has no other way to tell; signals that no read here has caused go to the handler that was there before.
class MappedFile {
 public:
  MappedFile() = default;
  // Of the open file, which has at most `size` bytes, now and later. Not mapped if all mapped files together would be
  // larger than the machine's memory, as most of them would not be in it.
  MappedFile(int file, int64_t size);
  MappedFile(MappedFile&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // False if the bytes cannot be read: the file is shorter, the disk fails, or nothing is mapped.
  bool read_at(void* data, size_t size, int64_t offset) const;
  // They will be read soon.
  void prefetch(size_t size, int64_t offset) const;

 private:
  const unsigned char* bytes_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace embcache
