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
        int pipe = -1;                    // of the earlier access; -1: no collision
        bool write = false;               // the earlier access
    };
    Collision Read(uint32_t first, uint32_t last, int pipe, uint32_t epoch, const Clock &known);
    Collision Write(uint32_t first, uint32_t last, int pipe, uint32_t epoch, const Clock &known);

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

}
