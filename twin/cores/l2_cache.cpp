#include "l2_cache.h"

#include <algorithm>

namespace twin {

namespace {

constexpr uint64_t kTurnLines = 64 * 1024 / kL2Line;

}  // namespace

void L2Requests::Add(const void* address, uint64_t bytes, bool read, bool write, uint64_t barrier) {
  if (bytes == 0) {
    return;
  }
  const auto start = reinterpret_cast<uint64_t>(address);
  const uint64_t first = start / kL2Line;
  const uint64_t end = (start + bytes - 1) / kL2Line + 1;
  const auto met = static_cast<uint32_t>(barrier & ((1u << 30) - 1));
  if (!all.empty()) {
    auto& last = all.back();
    const bool same = last.read == read && last.write == write && last.barrier == met;
    if (same && first == last.line + last.lines) {
      last.lines += static_cast<uint32_t>(end - first);
      return;
    }
  }
  all.push_back({first, static_cast<uint32_t>(end - first), met, read, write});
}

void L2Cache::Unlink(uint32_t at) {
  const Line& line = lines_[at];
  (line.before == kNone ? first_ : lines_[line.before].after) = line.after;
  (line.after == kNone ? last_ : lines_[line.after].before) = line.before;
}

void L2Cache::PutLast(uint32_t at) {
  lines_[at].before = last_;
  lines_[at].after = kNone;
  (last_ == kNone ? first_ : lines_[last_].after) = at;
  last_ = at;
}

void L2Cache::Touch(uint64_t number, bool read, bool write) {
  const auto found = places_.find(number);
  if (found != places_.end()) {
    lines_[found->second].dirty |= write;
    Unlink(found->second);
    PutLast(found->second);
    return;
  }
  bytesRead += read ? kL2Line : 0;
  uint32_t at = static_cast<uint32_t>(lines_.size());
  if (lines_.size() < capacity_) {
    lines_.push_back({});
  } else {
    at = first_;
    bytesWritten += lines_[at].dirty ? kL2Line : 0;
    places_.erase(lines_[at].number);
    Unlink(at);
  }
  lines_[at].number = number;
  lines_[at].dirty = write;
  places_[number] = at;
  PutLast(at);
}

void L2Cache::Serve(const std::vector<const L2Requests*>& cores) {
  struct Reader {
    std::size_t at = 0;
    uint64_t done = 0;  // lines of the request at hand
  };
  std::vector<Reader> readers(cores.size());
  for (uint32_t barrier = 0;; ++barrier) {
    bool later = false;
    for (bool busy = true; busy;) {
      busy = false;
      later = false;
      for (std::size_t i = 0; i < cores.size(); ++i) {
        const auto& all = cores[i]->all;
        auto& reader = readers[i];
        uint64_t turn = kTurnLines;
        while (turn > 0 && reader.at < all.size() && all[reader.at].barrier <= barrier) {
          const L2Access& access = all[reader.at];
          const uint64_t count = std::min(turn, access.lines - reader.done);
          for (uint64_t n = 0; n < count; ++n) {
            Touch(access.line + reader.done + n, access.read, access.write);
          }
          turn -= count;
          reader.done += count;
          if (reader.done == access.lines) {
            ++reader.at;
            reader.done = 0;
          }
          busy = true;
        }
        later = later || reader.at < all.size();
      }
    }
    if (!later) {
      return;
    }
  }
}

void L2Cache::Finish() {
  for (const Line& line : lines_) {
    bytesWritten += line.dirty ? kL2Line : 0;
  }
}

}  // namespace twin
