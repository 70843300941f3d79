#include "pinned_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <vector>

namespace twin {
namespace {

uintptr_t Page() {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return page;
}

uintptr_t Down(uintptr_t address) { return address / Page() * Page(); }
uintptr_t Up(uintptr_t address) { return Down(address + Page() - 1); }

// A use by a stream that the host has not waited for. Read by the signal handler, so without locks: `state` is written
// last, and a slot whose fields change is not Used. A use that ends is allowed again before its pages are open.
struct Use {
  enum State : int { kFree, kFilling, kUsed, kEnding };
  std::atomic<int> state{kFree};
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool writes = false;
  Point point;
  char text[192] = "";

  bool Overlaps(uintptr_t from, uintptr_t to) const { return begin < to && from < end; }
};

// Beyond these the uses go unwatched: a thousand copies that nobody waits for.
std::array<Use, 1024> uses;

enum FaultState : int { kNone, kWriting, kThere };
std::atomic<int> faultState{kNone};
char faultText[256];
std::atomic<uintptr_t> lastUnguarded{0};
struct sigaction before;

template <typename Visit>
void ForEachUse(Visit visit) {
  for (Use& use : uses) {
    if (use.state.load(std::memory_order_acquire) >= Use::kUsed) {
      visit(use);
    }
  }
}

// Which use forbids a touch of `address`, if one does. A page that streams only read is open to reading, so what faults
// there is a write; where a stream writes to the same page, a touch of what others read may be a read, and passes.
const Use* Forbidding(uintptr_t address) {
  const uintptr_t page = address / Page() * Page();
  const Use* found = nullptr;
  bool written = false;
  ForEachUse([&](const Use& use) { written = written || (use.writes && use.Overlaps(page, page + Page())); });
  ForEachUse([&](const Use& use) {
    const bool holds = use.state.load(std::memory_order_acquire) == Use::kUsed;
    if (holds && use.begin <= address && address < use.end && (use.writes || !written)) {
      found = &use;
    }
  });
  return found;
}

bool AnyUse() {
  bool any = false;
  ForEachUse([&any](const Use&) { any = true; });
  return any;
}

bool IsGuarded(uintptr_t address) {
  const uintptr_t page = address / Page() * Page();
  bool guarded = false;
  ForEachUse([&](const Use& use) { guarded = guarded || use.Overlaps(page, page + Page()); });
  return guarded;
}

// To whoever was there before. Without one the default comes back, and the touch is repeated.
void PassOn(int signal, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    sigaction(SIGSEGV, &before, nullptr);
    if (info->si_code <= 0) {
      raise(signal);  // it was sent: no touch repeats it
    }
  }
}

void OnFault(int signal, siginfo_t* info, void* context) {
  // Python's faulthandler, installed after us, shows the line and raises the signal again.
  if (info->si_code == SI_TKILL && AnyUse()) {
    return;
  }
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (info->si_code == SEGV_ACCERR && !IsGuarded(address) && lastUnguarded.exchange(address) != address) {
    return;  // another thread may have opened the page just now: once more
  }
  if (info->si_code != SEGV_ACCERR || !IsGuarded(address)) {
    PassOn(signal, info, context);
    return;
  }
  int none = kNone;
  const Use* use = Forbidding(address);
  if (use != nullptr && faultState.compare_exchange_strong(none, kWriting)) {
    std::memcpy(faultText, use->text, sizeof use->text);
    faultState.store(kThere, std::memory_order_release);
  }
  // The program goes on: the next call of the runtime tells it.
  if (mprotect(reinterpret_cast<void*>(address / Page() * Page()), Page(), PROT_READ | PROT_WRITE) != 0) {
    PassOn(signal, info, context);
  }
}

}  // namespace

// Never destroyed: see DeviceMemory.
PinnedGuard& PinnedGuard::Get() {
  static PinnedGuard& guard = *new PinnedGuard;
  return guard;
}

void* PinnedGuard::Allocate(std::size_t bytes) {
  const std::size_t size = Up(bytes);
  const int file = memfd_create("twin-pinned", MFD_CLOEXEC);
  if (file < 0) {
    return nullptr;
  }
  void* views[2] = {MAP_FAILED, MAP_FAILED};
  if (ftruncate(file, static_cast<off_t>(size)) == 0) {
    for (void*& view : views) {
      view = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
  }
  close(file);
  if (views[0] == MAP_FAILED || views[1] == MAP_FAILED) {
    for (void* view : views) {
      if (view != MAP_FAILED) {
        munmap(view, size);
      }
    }
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  mappings_[reinterpret_cast<uintptr_t>(views[0])] = {size, static_cast<unsigned char*>(views[1])};
  return views[0];
}

void PinnedGuard::Free(void* start) {
  const std::lock_guard lock(mutex_);
  const auto node = mappings_.extract(reinterpret_cast<uintptr_t>(start));
  if (node.empty()) {
    return;
  }
  const Mapping& mapping = node.mapped();
  ForEachUse([&](Use& use) {
    if (use.Overlaps(node.key(), node.key() + mapping.bytes)) {
      use.state.store(Use::kFree, std::memory_order_release);
    }
  });
  munmap(start, mapping.bytes);
  munmap(mapping.runtime, mapping.bytes);
}

void* PinnedGuard::Open(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto after = mappings_.upper_bound(at);
  if (after != mappings_.begin()) {
    const auto& [start, mapping] = *std::prev(after);
    if (at - start < mapping.bytes) {
      return mapping.runtime + (at - start);
    }
  }
  return const_cast<void*>(address);
}

void PinnedGuard::Watch() {
  struct sigaction now = {};
  if (watching_ && (sigaction(SIGSEGV, nullptr, &now) != 0 || now.sa_handler != SIG_DFL)) {
    return;  // where others have put the default back (faulthandler.disable), it is watched anew
  }
  watching_ = true;
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &before);
}

void PinnedGuard::Begin(const twinAccess& access, const Point& point, const std::string& label) {
  const auto begin = reinterpret_cast<uintptr_t>(access.start);
  const std::lock_guard lock(mutex_);
  Watch();
  for (Use& use : uses) {
    if (use.state.load(std::memory_order_relaxed) != Use::kFree) {
      continue;
    }
    use.state.store(Use::kFilling, std::memory_order_release);
    use.begin = begin;
    use.end = begin + access.bytes;
    use.writes = access.writes;
    use.point = point;
    std::snprintf(use.text, sizeof use.text,
                  "the host %s pinned memory 0x%" PRIxPTR " (%zu bytes) that '%s' on %s still %s",
                  access.writes ? "touches" : "writes", begin, access.bytes, point.name, label.c_str(),
                  access.writes ? "writes" : "reads");
    use.state.store(Use::kUsed, std::memory_order_release);
    Protect(use.begin, use.end);
    return;
  }
}

void PinnedGuard::End(const VectorClock& host) {
  const std::lock_guard lock(mutex_);
  ForEachUse([&](Use& use) {
    if (use.point.KnownTo(host)) {
      use.state.store(Use::kEnding, std::memory_order_release);
      Protect(use.begin, use.end);
      lastUnguarded.store(0);  // whoever faulted before that may try once more
      use.state.store(Use::kFree, std::memory_order_release);
    }
  });
}

// Each page as the strictest of its uses asks.
void PinnedGuard::Protect(uintptr_t begin, uintptr_t end) {
  std::vector<const Use*> near;
  ForEachUse([&](const Use& use) {
    if (use.state.load() == Use::kUsed && use.Overlaps(Down(begin), Up(end))) {
      near.push_back(&use);
    }
  });
  const auto allowed = [&near](uintptr_t page) {
    int protection = PROT_READ | PROT_WRITE;
    for (const Use* use : near) {
      if (use->Overlaps(page, page + Page())) {
        protection &= use->writes ? PROT_NONE : PROT_READ;
      }
    }
    return protection;
  };
  // Neighbours of one protection together: a large copy has many pages.
  uintptr_t first = Down(begin);
  int protection = allowed(first);
  for (uintptr_t page = first + Page(); page < end; page += Page()) {
    if (const int next = allowed(page); next != protection) {
      mprotect(reinterpret_cast<void*>(first), page - first, protection);
      first = page;
      protection = next;
    }
  }
  mprotect(reinterpret_cast<void*>(first), Up(end) - first, protection);
}

std::optional<std::string> PinnedGuard::TakeFault() {
  if (faultState.load(std::memory_order_acquire) != kThere) {
    return std::nullopt;
  }
  std::string text(faultText);
  faultState.store(kNone, std::memory_order_release);
  return text;
}

}  // namespace twin
