// The core's data cache, by which its scalar unit reads and writes global memory.
#include <algorithm>
#include <cstring>

#include "core_state.h"
#include "gm_access.h"
#include "launch_work.h"
#include "scheduler.h"

namespace twin {

void Core::GmPeek(const void* address, void* value, uint32_t bytes) const {
  const auto at = reinterpret_cast<uint64_t>(address);
  const uint64_t mask = (bytes == 8 ? 0xffull : (1ull << bytes) - 1) << at % 64;
  const auto found = state->cache.find(at / 64);
  if (at % bytes == 0 && found != state->cache.end() && (found->second.valid & mask) == mask) {
    std::memcpy(value, found->second.bytes + at % 64, bytes);
    return;
  }
  const auto& launch = state->scheduler->launch;
  for (std::size_t i = 0; i < launch.extentCount; ++i) {
    const auto start = reinterpret_cast<uint64_t>(launch.extents[i].start);
    if (at >= start && at - start + bytes <= launch.extents[i].bytes) {
      std::memcpy(value, address, bytes);
    }
  }
}

namespace {

// This core's copy of a line: an empty one where it has none yet.
CacheLineCopy& LineOf(CoreState& s, uint64_t line) {
  const auto found = s.cache.find(line);
  if (found != s.cache.end()) {
    return found->second;
  }
  launchWork.bytesRead += kCacheLine;
  AskGm(s, reinterpret_cast<const void*>(line * 64), 1, kCacheLine, 0, true, false);
  return s.cache.emplace(line, CacheLineCopy{}).first->second;
}

}  // namespace

// Reads through this core's copy of the 64-byte line, as the hardware does: old bytes stay old until the line is
// dropped.
void Core::ScalarLoad(const void* address, void* value, uint32_t bytes) {
  Issue(PIPE_S, "GlobalTensor::GetValue");
  const bool writable = GmExtentAt(*this, address, bytes, false).writable;
  const auto at = reinterpret_cast<uint64_t>(address);
  if (at % bytes != 0) {
    Trap("E-36", "scalar access of %u bytes at GM %p is not aligned", bytes, address);
  }
  const uint64_t offset = at % 64;
  auto& line = LineOf(*state, at / 64);
  const uint64_t mask = (bytes == 8 ? 0xffull : (1ull << bytes) - 1) << offset;
  const bool held = (line.valid & mask) == mask;
  if (!held && writable) {
    RecordGm(*this, address, bytes, false);
  }
  if (((line.valid | line.ahead) & mask) != mask) {
    std::memcpy(line.bytes + offset, address, bytes);
  } else if ((line.dirty & mask) == 0 && std::memcmp(line.bytes + offset, address, bytes) != 0) {
    Trap("E-19", "the data cache holds a stale copy of GM %p: DataCacheCleanAndInvalid is missing", address);
  }
  line.valid |= mask;
  line.ahead &= ~mask;
  std::memcpy(value, line.bytes + offset, bytes);
}

// What the rest of the line holds then, it holds for later reads, which are recorded when they come.
void Core::PreloadCache(const void* address) {
  Issue(PIPE_S, "DataCachePreload");
  const auto& extent = GmExtentAt(*this, address, 1, false);
  const auto first = reinterpret_cast<uint64_t>(address) / 64 * 64;
  const auto start = reinterpret_cast<uint64_t>(extent.start);
  auto& line = LineOf(*state, first / 64);
  for (uint64_t i = 0; i < 64; ++i) {
    const uint64_t bit = 1ull << i;
    if (((line.valid | line.ahead) & bit) == 0 && first + i >= start && first + i < start + extent.bytes) {
      line.bytes[i] = *reinterpret_cast<const uint8_t*>(first + i);
      line.ahead |= bit;
    }
  }
}

void Core::ScalarStore(void* address, const void* value, uint32_t bytes) {
  Issue(PIPE_S, "GlobalTensor::SetValue");
  const auto& extent = GmExtentAt(*this, address, bytes, true);
  const auto at = reinterpret_cast<uint64_t>(address);
  if (at % bytes != 0) {
    Trap("E-36", "scalar access of %u bytes at GM %p is not aligned", bytes, address);
  }
  const uint64_t offset = at % 64;
  auto& line = state->cache[at / 64];
  const uint64_t mask = (bytes == 8 ? 0xffull : (1ull << bytes) - 1) << offset;
  std::memcpy(line.bytes + offset, value, bytes);
  line.valid |= mask;
  line.dirty |= mask;
  line.ahead &= ~mask;
  // The whole line goes back to GM one day: another core must not touch any of it.
  const auto first = std::max(at / 64 * 64, reinterpret_cast<uint64_t>(extent.start));
  const auto last = std::min(at / 64 * 64 + 64, reinterpret_cast<uint64_t>(extent.start) + extent.bytes);
  RecordGm(*this, reinterpret_cast<const void*>(first), last - first, true);
}

void Core::CleanCache(const void* address, bool whole) {
  const char* call = state->call;
  Issue(PIPE_S, "DataCacheCleanAndInvalid");
  const auto flush = [this](uint64_t line, const CacheLineCopy& copy) {
    if (copy.dirty != 0) {
      launchWork.bytesWritten += kCacheLine;
      AskGm(*state, reinterpret_cast<const void*>(line * 64), 1, kCacheLine, 0, false, true);
    }
    for (uint32_t i = 0; i < 64; ++i) {
      if (((copy.dirty >> i) & 1u) != 0) {
        auto* to = reinterpret_cast<uint8_t*>(line * 64 + i);
        RecordGm(*this, to, 1, true);
        *to = copy.bytes[i];
      }
    }
  };
  if (whole) {
    for (const auto& entry : state->cache) {
      flush(entry.first, entry.second);
    }
    state->cache.clear();
  } else {
    const auto found = state->cache.find(reinterpret_cast<uint64_t>(address) / 64);
    if (found != state->cache.end()) {
      flush(found->first, found->second);
      state->cache.erase(found);
    }
  }
  state->call = call;
}

}  // namespace twin
