#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "mapped_file.h"

namespace embcache {

// An open file; closes itself. Every failure is a StoreError with the path.
class File {
 public:
  File() = default;
  File(const std::string& path, int flags);
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  int64_t size() const;
  // Bytes read, fewer than asked for only at the end of the file.
  size_t read_at(void* data, size_t size, int64_t offset) const;
  // As memory, of at most `size` bytes that it has now or later.
  MappedFile map(int64_t size) const { return MappedFile(fd_, size); }
  void write_at(const void* data, size_t size, int64_t offset) const;
  void truncate(int64_t size) const;
  void sync() const;
  // False if another process holds it.
  bool try_lock(bool shared) const;
  void advise_random() const;
  void advise_sequential() const;

 private:
  int fd_ = -1;
  std::string path_;
};

void sync_folder(const std::string& folder);

// Replaces `path` so that a crash leaves the old or the new content: temporary file, fdatasync, rename.
void replace_file(const std::string& path, const void* data, size_t size);

}  // namespace embcache
