#include "access_history.h"

#include <algorithm>
#include <iterator>

namespace twin {
namespace {

std::optional<Point> Unknown(const std::vector<Point>& reads, const VectorClock& seen) {
  const auto found =
      std::find_if(reads.begin(), reads.end(), [&seen](const Point& read) { return !read.KnownTo(seen); });
  return found == reads.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

// The first piece that begins at or behind `at`, with none across it.
AccessHistory::Pieces::iterator AccessHistory::Cut(uintptr_t at) {
  const auto after = pieces_.lower_bound(at);
  if (after == pieces_.begin()) {
    return after;
  }
  Piece& before = std::prev(after)->second;
  if (before.end <= at) {
    return after;
  }
  Piece behind = before;
  before.end = at;
  return pieces_.emplace_hint(after, at, std::move(behind));
}

std::optional<Conflict> AccessHistory::Note(uintptr_t begin, uintptr_t end, bool writes, const Point& point,
                                            const VectorClock& seen) {
  std::optional<Conflict> conflict;
  const auto last = Cut(end);
  auto piece = Cut(begin);
  uintptr_t noted = begin;  // readers are noted up to here
  const auto fill = [&](uintptr_t to) {
    if (noted < to) {
      pieces_.emplace_hint(piece, noted, Piece{to, std::nullopt, {point}});
    }
  };
  while (piece != last) {
    Piece& found = piece->second;
    if (!conflict && found.write && !found.write->KnownTo(seen)) {
      conflict = {*found.write, true, piece->first, found.end};
    }
    if (writes) {
      if (const auto read = Unknown(found.reads, seen); !conflict && read) {
        conflict = {*read, false, piece->first, found.end};
      }
      piece = pieces_.erase(piece);
      continue;
    }
    fill(piece->first);
    // A reader that this one follows is covered by this one.
    auto& reads = found.reads;
    reads.erase(std::remove_if(reads.begin(), reads.end(), [&](const Point& read) { return read.KnownTo(seen); }),
                reads.end());
    reads.push_back(point);
    noted = found.end;
    ++piece;
  }
  if (writes) {
    pieces_.emplace_hint(piece, begin, Piece{end, point, {}});
  } else {
    fill(end);
  }
  return conflict;
}

void AccessHistory::Forget(uintptr_t begin, uintptr_t end) {
  const auto last = Cut(end);
  pieces_.erase(Cut(begin), last);
}

}  // namespace twin
