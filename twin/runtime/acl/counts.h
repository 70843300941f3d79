// TWIN_COUNTS=FILE: launches, waits of the host, copies, memory and kernels, of each step and of the whole process.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "settings.h"

namespace twin {

enum class Wait { kStream, kDevice, kEvent, kCopy, kValue };
enum class Launched { kCustom, kAclnn, kAten, kHccl };

constexpr std::array<const char*, 5> kWaitNames = {"stream", "device", "event", "copy", "value"};
constexpr std::array<const char*, 4> kLaunchNames = {"custom", "aclnn", "aten", "hccl"};

struct CopyKind {
  aclrtMemcpyKind way;
  bool pinned;    // the host side; false between devices
  bool blocking;  // the call returns when the copy is done

  bool operator<(const CopyKind& other) const {
    return std::tie(way, pinned, blocking) < std::tie(other.way, other.pinned, other.blocking);
  }
};

struct Copied {
  uint64_t count = 0;
  uint64_t bytes = 0;
};

struct KernelWork {
  uint64_t launches = 0;
  uint64_t bytesRead = 0;
  uint64_t bytesWritten = 0;
  uint64_t products = 0;
  uint64_t hbmRead = 0;
  uint64_t hbmWritten = 0;
};

// Of a step, or of the process.
struct Tally {
  std::array<std::map<std::string, uint64_t>, kLaunchNames.size()> launches;
  std::array<std::map<std::string, uint64_t>, kWaitNames.size()> waits;
  std::map<std::pair<std::string, std::string>, uint64_t> places;  // of waits and copies to the host: call, Python line
  std::map<CopyKind, Copied> copies;
  std::map<std::string, KernelWork> kernels;
  std::vector<std::size_t> peaks;  // bytes, by device
};

class Counts {
 public:
  static Counts& Get();

  void AddLaunch(Launched kind, const char* name);
  void AddWait(Wait kind, const char* function);
  void AddCopy(const char* function, const CopyKind& kind, std::size_t bytes);
  void AddKernel(const char* name, const KernelWork& work);
  void SetMemory(int32_t device, std::size_t used);

  void SetDrain(void (*drain)());
  void BeginStep(const char* name);
  void EndStep();
  // The line of the whole process, once.
  void Finish();

 private:
  template <typename Change>
  void Add(Change change);
  void Settle();
  void WriteStep();

  std::mutex mutex_;
  Tally total_;
  Tally step_;
  std::vector<std::size_t> used_;
  std::string stepName_;
  uint64_t steps_ = 0;
  bool open_ = false;
  bool finished_ = false;
  void (*drain_)() = nullptr;
};

inline bool Counting() { return !GetSettings().counts.empty(); }

// No wait of the program: another thread's, or the emulation's own.
bool IsOwnWait();

inline void CountWait(Wait kind, const char* function) {
  if (Counting() && !IsOwnWait()) {
    Counts::Get().AddWait(kind, function);
  }
}

}  // namespace twin
