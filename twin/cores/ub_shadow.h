// Order and definedness of the unified buffer, per 32-byte block. Fields lie apart, so that the long stretches of a
// copy are checked and marked at the speed of memory.
#pragma once
#include <cstdint>
#include <vector>

#include "ascendc/core.h"

namespace twin {

class UbShadow {
 public:
  UbShadow();

  // Nothing has happened to blocks [first, last).
  void Forget(uint32_t first, uint32_t last);

  // What an access of `pipe` collides with, given what the pipe knows to be finished.
  struct Collision {
    uint32_t block = 0;
    int pipe = -1;       // of the earlier access; -1: no collision
    bool write = false;  // the earlier access
  };
  Collision Read(uint32_t first, uint32_t last, int pipe, uint32_t epoch, const Clock& known);
  Collision Write(uint32_t first, uint32_t last, int pipe, uint32_t epoch, const Clock& known);

  // The same for one block, as the scalar unit asks for it element by element.
  Collision ReadOne(uint32_t block, int pipe, uint32_t epoch, const Clock& known) {
    const int w = writer_[block];
    if (w != pipe && known.at[w] < written_[block]) {
      return {block, w, true};
    }
    read_[pipe][block] = epoch;
    newestRead_[pipe] = epoch;
    return {};
  }
  Collision WriteOne(uint32_t block, int pipe, uint32_t epoch, const Clock& known) {
    bool doubtful = writer_[block] != pipe && known.at[writer_[block]] < written_[block];
    for (int r = 0; r < kPipes; ++r) {
      doubtful |= r != pipe && known.at[r] < newestRead_[r];
    }
    if (doubtful) {
      return Write(block, block + 1, pipe, epoch, known);
    }
    written_[block] = epoch;
    writer_[block] = static_cast<uint8_t>(pipe);
    newestWrite_[pipe] = epoch;
    return {};
  }
  bool DefinedIn(uint32_t block, uint32_t mask) const { return (defined_[block] & mask) == mask; }
  void DefineIn(uint32_t block, uint32_t mask) { defined_[block] |= mask; }

  // Was any of the blocks written by instruction `epoch` of `pipe`?
  bool WrittenBy(uint32_t first, uint32_t last, int pipe, uint32_t epoch) const;

  void Define(uint64_t from, uint64_t to);
  void Undefine(uint64_t from, uint64_t to);
  bool Defined(uint64_t from, uint64_t to) const;

 private:
  std::vector<uint32_t> written_;       // epoch of the last write
  std::vector<uint8_t> writer_;         // its pipe
  std::vector<uint32_t> read_[kPipes];  // epoch of the last read
  std::vector<uint32_t> defined_;       // bit i: byte i holds a value
  // The newest of all blocks: a pipe that knows these to be finished collides with nothing.
  uint32_t newestWrite_[kPipes] = {};
  uint32_t newestRead_[kPipes] = {};
};

}  // namespace twin
