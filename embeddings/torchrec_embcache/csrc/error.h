#pragma once

#include <stdexcept>
#include <string>

namespace embcache {

// Numbers are part of the C interface (library.py).
enum class Fault : int {
  kInput = 1,     // an argument is wrong
  kIo = 2,        // the system refused a call
  kDiskFull = 3,  // no space, or quota
  kReadOnly = 4,  // read-only file system or folder
  kCorrupt = 5,   // a checksum, or a file's structure, is wrong
  kLocked = 6,    // another process has the store open
  kFull = 7,      // no more row numbers
};

class StoreError : public std::runtime_error {
 public:
  StoreError(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

// The error of a failed system call, by errno: what was done, to which path, and what to do about it.
[[noreturn]] void throw_system_error(const std::string& action, const std::string& path, int error);

}  // namespace embcache
