// mstx*: a range whose message begins with "step" is a step of TWIN_COUNTS; so is what lies between two such marks.
// Other messages, and domains, are taken and change nothing: no profile of a device is emulated.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "acl/acl.h"
#include "twin/counts.h"

#define TWIN_MSTX extern "C" __attribute__((visibility("default")))

struct mstxDomainRegistration_st {};

namespace {

constexpr uint64_t kStepBit = uint64_t{1} << 63;  // of a range's id: it opened a step
std::atomic<uint64_t> ranges{0};
std::atomic<uint64_t> latestStep{0};

bool IsStep(const char* message) {
  return message != nullptr && std::strncmp(message, "step", 4) == 0 && twinCounting();
}

void Mark(const char* message) {
  if (IsStep(message)) {
    latestStep = 0;
    twinCountsBeginStep(message);
  }
}

// 0 is what an invalid range has.
uint64_t Start(const char* message) {
  if (message == nullptr) {
    return 0;
  }
  const uint64_t id = ++ranges;
  if (!IsStep(message)) {
    return id;
  }
  latestStep = id | kStepBit;
  twinCountsBeginStep(message);
  return id | kStepBit;
}

// A step that another one ended is over.
void End(uint64_t id) {
  uint64_t expected = id;
  if ((id & kStepBit) != 0 && latestStep.compare_exchange_strong(expected, 0)) {
    twinCountsEndStep();
  }
}

}  // namespace

TWIN_MSTX void mstxMarkA(const char* message, aclrtStream) { Mark(message); }

TWIN_MSTX uint64_t mstxRangeStartA(const char* message, aclrtStream) { return Start(message); }

TWIN_MSTX void mstxRangeEnd(uint64_t id) { End(id); }

TWIN_MSTX mstxDomainRegistration_st* mstxDomainCreateA(const char* name) {
  return name == nullptr ? nullptr : std::make_unique<mstxDomainRegistration_st>().release();
}

TWIN_MSTX void mstxDomainDestroy(mstxDomainRegistration_st* domain) {
  const std::unique_ptr<mstxDomainRegistration_st> owned(domain);
}

TWIN_MSTX void mstxDomainMarkA(mstxDomainRegistration_st*, const char* message, aclrtStream) { Mark(message); }

TWIN_MSTX uint64_t mstxDomainRangeStartA(mstxDomainRegistration_st*, const char* message, aclrtStream) {
  return Start(message);
}

TWIN_MSTX void mstxDomainRangeEnd(mstxDomainRegistration_st*, uint64_t id) { End(id); }
