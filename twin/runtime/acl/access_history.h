// Who wrote each byte last, and who has read it since.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "vector_clock.h"

namespace twin {

// One operation of an actor. It is known to be done to whoever's clock has reached its epoch.
struct Point {
  std::size_t actor = kHost;
  uint64_t epoch = 0;
  const char* name = nullptr;  // static storage

  bool KnownTo(const VectorClock& clock) const { return clock.Of(actor) >= epoch; }
};

struct Conflict {
  Point earlier;
  bool earlierWrites;
  uintptr_t begin;
  uintptr_t end;
};

class AccessHistory {
 public:
  // Notes that `point` reads or writes [begin, end) and tells of the first earlier access, with one of the two
  // a write, that is not known to `seen`.
  std::optional<Conflict> Note(uintptr_t begin, uintptr_t end, bool writes, const Point& point,
                               const VectorClock& seen);
  void Forget(uintptr_t begin, uintptr_t end);

 private:
  struct Piece {
    uintptr_t end;
    std::optional<Point> write;
    std::vector<Point> reads;
  };
  using Pieces = std::map<uintptr_t, Piece>;

  Pieces::iterator Cut(uintptr_t at);

  Pieces pieces_;  // disjoint
};

}  // namespace twin
