#include "gm_history.h"

#include <algorithm>
#include <cstring>

namespace twin {

void GmHistory::Add(const GmAccess& access) {
  if (!accesses.empty()) {
    auto& last = accesses.back();
    const bool sameKind = last.write == access.write && last.atomic == access.atomic && last.pipe == access.pipe &&
                          last.cross == access.cross && std::memcmp(&last.known, &access.known, sizeof(Clock)) == 0;
    // A transfer or product that is waited for must not be joined with the next one, which is not.
    if (sameKind && last.end == access.start && (access.pipe == PIPE_S || last.epoch == access.epoch)) {
      last.end = access.end;
      last.epoch = access.epoch;
      return;
    }
  }
  accesses.push_back(access);
}

namespace {

// Did b's core wait, by flags between cores, for a? The flags come back to the core itself too.
bool Follows(const GmAccess& b, const GmAccess& a) {
  return b.cross != nullptr && a.core < b.cross->size() && (*b.cross)[a.core].at[a.pipe] >= a.epoch;
}

bool Ordered(const GmAccess& a, const GmAccess& b) {
  if (a.atomic != AtomicMode::None && a.atomic == b.atomic) {
    return true;  // either order gives a result that the kernel asked for
  }
  if (Follows(a, b) || Follows(b, a)) {
    return true;
  }
  if (a.core != b.core) {
    return false;
  }
  return (a.pipe == PIPE_S && b.pipe == PIPE_S) || b.known.at[a.pipe] >= a.epoch || a.known.at[b.pipe] >= b.epoch ||
         (a.pipe == b.pipe && a.epoch == b.epoch);
}

}  // namespace

bool FindConflict(std::vector<GmAccess>& accesses, GmConflict& conflict) {
  const bool anyWrite = std::any_of(accesses.begin(), accesses.end(), [](const GmAccess& a) { return a.write; });
  if (!anyWrite) {
    return false;
  }
  std::sort(accesses.begin(), accesses.end(), [](const GmAccess& a, const GmAccess& b) { return a.start < b.start; });
  std::vector<const GmAccess*> reads;
  std::vector<const GmAccess*> writes;
  const auto expire = [](std::vector<const GmAccess*>& open, uint64_t start) {
    open.erase(std::remove_if(open.begin(), open.end(), [start](const GmAccess* a) { return a->end <= start; }),
               open.end());
  };
  const auto clash = [&conflict](const std::vector<const GmAccess*>& open, const GmAccess& access) {
    for (const auto* other : open) {
      if (other->end > access.start && !Ordered(*other, access)) {
        conflict = {*other, access};
        return true;
      }
    }
    return false;
  };
  for (const auto& access : accesses) {
    if (clash(writes, access)) {
      return true;
    }
    expire(writes, access.start);
    if (access.write) {
      if (clash(reads, access)) {
        return true;
      }
      expire(reads, access.start);
      writes.push_back(&access);
    } else {
      if (reads.size() > 256) {
        expire(reads, access.start);
      }
      reads.push_back(&access);
    }
  }
  return false;
}

}  // namespace twin
