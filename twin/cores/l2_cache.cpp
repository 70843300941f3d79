#include "l2_cache.h"

#include <algorithm>

namespace twin {

namespace {

constexpr uint64_t kTurnLines = 64 * 1024 / kL2Line;

// How far the requests of one core are served.
struct Reader {
  L2Place at;
  uint64_t done = 0;  // lines of the request at hand
};

bool HasMet(const std::vector<Reader>& readers, const L2Meeting& meeting) {
  return std::all_of(meeting.members.begin(), meeting.members.end(), [&readers](const L2Meeting::Member& member) {
    const L2Place& at = readers[member.core].at;
    return at.requests >= member.place.requests && at.waits >= member.place.waits;
  });
}

// Passes the waits before the request at hand. False: one of them is not over.
bool PassWaits(const std::vector<Reader>& readers, const L2Requests& requests, Reader& reader) {
  auto& at = reader.at;
  while (at.waits < requests.waits.size() && requests.waits[at.waits].before == at.requests) {
    if (!HasMet(readers, *requests.waits[at.waits].meeting)) {
      return false;
    }
    ++at.waits;
  }
  return true;
}

}  // namespace

void L2Requests::Clear() {
  all.clear();
  waits.clear();
  marked_ = 0;
}

L2Place L2Requests::Mark() {
  marked_ = all.size();
  return {all.size(), waits.size()};
}

void L2Requests::Add(const void* address, uint64_t bytes, bool read, bool write, uint64_t barrier) {
  if (bytes == 0) {
    return;
  }
  const auto start = reinterpret_cast<uint64_t>(address);
  const uint64_t first = start / kL2Line;
  const uint64_t end = (start + bytes - 1) / kL2Line + 1;
  const auto met = static_cast<uint32_t>(barrier & ((1u << 30) - 1));
  if (all.size() > marked_) {
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

bool L2Cache::Serve(const std::vector<const L2Requests*>& cores) {
  std::vector<Reader> readers(cores.size());
  for (uint32_t barrier = 0;; ++barrier) {
    bool later = false;     // somebody has requests left,
    bool withheld = false;  // until the next barrier
    for (bool busy = true; busy;) {
      busy = later = withheld = false;
      for (std::size_t i = 0; i < cores.size(); ++i) {
        const auto& all = cores[i]->all;
        auto& reader = readers[i];
        std::size_t& at = reader.at.requests;
        const std::size_t waits = reader.at.waits;
        uint64_t turn = kTurnLines;
        while (PassWaits(readers, *cores[i], reader) && turn > 0 && at < all.size() && all[at].barrier <= barrier) {
          const L2Access& access = all[at];
          const uint64_t count = std::min(turn, access.lines - reader.done);
          for (uint64_t n = 0; n < count; ++n) {
            Touch(access.line + reader.done + n, access.read, access.write);
          }
          turn -= count;
          reader.done += count;
          if (reader.done == access.lines) {
            ++at;
            reader.done = 0;
          }
          busy = true;
        }
        busy = busy || reader.at.waits != waits;  // who waits for this core may go on
        later = later || at < all.size();
        withheld = withheld || (at < all.size() && all[at].barrier > barrier);
      }
    }
    if (!later) {
      return true;
    }
    if (!withheld) {
      return false;
    }
  }
}

void L2Cache::Finish() {
  for (const Line& line : lines_) {
    bytesWritten += line.dirty ? kL2Line : 0;
  }
}

}  // namespace twin
