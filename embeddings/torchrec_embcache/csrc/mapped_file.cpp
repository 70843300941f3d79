#include "mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>
#include <csetjmp>
#include <csignal>

#include <atomic>
#include <cstring>
#include <mutex>

namespace embcache {
namespace {

constexpr int64_t kLine = 64;

std::atomic<int64_t> mapped_bytes{0};

// Of a thread that reads mapped bytes. In the static block, as a handler must not allocate.
__attribute__((tls_model("initial-exec"))) thread_local sigjmp_buf* way_out = nullptr;
struct sigaction handler_before{};

void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (way_out != nullptr) siglongjmp(*way_out, 1);
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  } else {
    ::sigaction(SIGBUS, &handler_before, nullptr);  // the access is made again, and ends the process
  }
}

bool catch_bus_errors() {
  struct sigaction handler{};
  handler.sa_sigaction = on_bus_error;
  handler.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  return ::sigaction(SIGBUS, &handler, &handler_before) == 0;
}

int64_t memory_bytes() { return int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE); }

}  // namespace

MappedFile::MappedFile(int file, int64_t size) {
  static const bool caught = catch_bus_errors();
  static const int64_t most = memory_bytes();
  if (!caught) return;
  if (mapped_bytes.fetch_add(size) + size <= most) {
    void* place = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, file, 0);
    if (place != MAP_FAILED) {
      ::madvise(place, static_cast<size_t>(size), MADV_RANDOM);
      bytes_ = static_cast<const unsigned char*>(place);
      size_ = size;
      return;
    }
  }
  mapped_bytes -= size;
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_ == nullptr) return;
  ::munmap(const_cast<unsigned char*>(bytes_), static_cast<size_t>(size_));
  mapped_bytes -= size_;
}

bool MappedFile::read_at(void* data, size_t size, int64_t offset) const {
  if (offset + static_cast<int64_t>(size) > size_) return false;
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) {
    way_out = nullptr;
    return false;
  }
  way_out = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(data, bytes_ + offset, size);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  way_out = nullptr;
  return true;
}

void MappedFile::prefetch(size_t size, int64_t offset) const {
  const int64_t end = offset + static_cast<int64_t>(size);
  if (end > size_) return;
  for (int64_t at = offset / kLine * kLine; at < end; at += kLine) __builtin_prefetch(bytes_ + at);
}

}  // namespace embcache
