#include "file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "error.h"

namespace embcache {
namespace {

std::string free_space(const std::string& path) {
  struct statvfs info{};
  if (::statvfs(path.c_str(), &info) != 0) return "unknown";
  return std::to_string(static_cast<uint64_t>(info.f_bavail) * info.f_frsize) + " bytes";
}

}  // namespace

void throw_system_error(const std::string& action, const std::string& path, int error) {
  const std::string what = action + " " + path + ": " + std::strerror(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      throw StoreError(Fault::kDiskFull, what + " (free: " + free_space(path) +
                                             "); make room or move the store's folder to a larger disk. Rows that "
                                             "were written before are intact, and the write can be repeated");
    case EROFS:
    case EACCES:
    case EPERM:
      throw StoreError(Fault::kReadOnly,
                       what + "; make the folder writable by this process, or open the store with read_only=True");
    case EMFILE:
    case ENFILE:
      throw StoreError(Fault::kIo, what + "; raise `ulimit -n`, or use a larger slab_bytes");
    default:
      throw StoreError(Fault::kIo, what + "; check the disk (dmesg, smartctl) and the path");
  }
}

File::File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)), path_(path) {
  if (fd_ < 0) throw_system_error("open", path, errno);
}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

int64_t File::size() const {
  struct stat info{};
  if (::fstat(fd_, &info) != 0) throw_system_error("stat", path_, errno);
  return info.st_size;
}

size_t File::read_at(void* data, size_t size, int64_t offset) const {
  auto* bytes = static_cast<char*>(data);
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(fd_, bytes + done, size - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error("read", path_, errno);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

void File::write_at(const void* data, size_t size, int64_t offset) const {
  const auto* bytes = static_cast<const char*>(data);
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pwrite(fd_, bytes + done, size - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error("write", path_, errno);
    done += static_cast<size_t>(count);
  }
}

void File::truncate(int64_t size) const {
  if (::ftruncate(fd_, size) != 0) throw_system_error("truncate", path_, errno);
}

void File::sync() const {
  if (::fdatasync(fd_) != 0) throw_system_error("sync", path_, errno);
}

bool File::try_lock(bool shared) const {
  if (::flock(fd_, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  throw_system_error("lock", path_, errno);
}

void File::advise_random() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM); }

void File::advise_sequential() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL); }

void sync_folder(const std::string& folder) {
  const File file(folder, O_RDONLY | O_DIRECTORY);
  file.sync();
}

void replace_file(const std::string& path, const void* data, size_t size) {
  const std::string partial = path + ".partial";
  try {
    const File file(partial, O_WRONLY | O_CREAT | O_TRUNC);
    file.write_at(data, size, 0);
    file.sync();
  } catch (const StoreError&) {
    ::unlink(partial.c_str());
    throw;
  }
  if (::rename(partial.c_str(), path.c_str()) != 0) throw_system_error("rename", path, errno);
}

}  // namespace embcache
