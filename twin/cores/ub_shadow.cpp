#include "ub_shadow.h"

#include <algorithm>

namespace twin {

namespace {

bool IsDma(int pipe) { return pipe == PIPE_MTE1 || pipe == PIPE_MTE2 || pipe == PIPE_MTE3; }

// Bytes [from, to) of a block.
uint32_t ByteMask(uint64_t from, uint64_t to) {
  const uint32_t high = to >= kUbBlock ? ~0u : (1u << to) - 1;
  return high & ~((1u << from) - 1);
}

// f(block, mask) for the blocks that [from, to) covers in part, whole(first, last) for those in between.
template <typename Part, typename Whole>
void ForBytes(uint64_t from, uint64_t to, Part part, Whole whole) {
  if (from >= to) {
    return;
  }
  uint64_t first = from / kUbBlock;
  const uint64_t last = to / kUbBlock;
  if (first == last) {
    part(first, ByteMask(from % kUbBlock, to % kUbBlock));
    return;
  }
  if (from % kUbBlock != 0) {
    part(first, ByteMask(from % kUbBlock, kUbBlock));
    ++first;
  }
  if (first < last) {
    whole(first, last);
  }
  if (to % kUbBlock != 0) {
    part(last, ByteMask(0, to % kUbBlock));
  }
}

}  // namespace

UbShadow::UbShadow() : written_(kUbBytes / kUbBlock), writer_(written_.size()), defined_(written_.size()) {
  for (auto& read : read_) {
    read.resize(written_.size());
  }
}

void UbShadow::Forget(uint32_t first, uint32_t last) {
  std::fill(written_.begin() + first, written_.begin() + last, 0u);
  std::fill(writer_.begin() + first, writer_.begin() + last, uint8_t{0});
  std::fill(defined_.begin() + first, defined_.begin() + last, 0u);
  for (int p = 0; p < kPipes; ++p) {
    std::fill(read_[p].begin() + first, read_[p].begin() + last, 0u);
  }
  if (first == 0) {  // a new set of buffers
    std::fill(std::begin(newestWrite_), std::end(newestWrite_), 0u);
    std::fill(std::begin(newestRead_), std::end(newestRead_), 0u);
  }
}

UbShadow::Collision UbShadow::Read(uint32_t first, uint32_t last, int pipe, uint32_t epoch, const Clock& known) {
  bool doubtful = false;
  for (int w = 0; w < kPipes; ++w) {
    doubtful |= w != pipe && known.at[w] < newestWrite_[w];
  }
  for (uint32_t b = first; doubtful && b < last; ++b) {
    const int w = writer_[b];
    if (w != pipe && known.at[w] < written_[b]) {
      return {b, w, true};
    }
  }
  std::fill(read_[pipe].begin() + first, read_[pipe].begin() + last, epoch);
  newestRead_[pipe] = epoch;
  return {};
}

UbShadow::Collision UbShadow::Write(uint32_t first, uint32_t last, int pipe, uint32_t epoch, const Clock& known) {
  // Within a pipe only DMA instructions overtake each other; the bursts of one instruction do not collide.
  const bool ownWrites = IsDma(pipe);
  bool doubtful = false;
  for (int w = 0; w < kPipes; ++w) {
    doubtful |= (w != pipe || ownWrites) && known.at[w] < newestWrite_[w];
  }
  for (uint32_t b = first; doubtful && b < last; ++b) {
    const int w = writer_[b];
    if (known.at[w] < written_[b] && (w != pipe || (ownWrites && written_[b] != epoch))) {
      return {b, w, true};
    }
  }
  for (int r = 0; r < kPipes; ++r) {
    for (uint32_t b = first; r != pipe && known.at[r] < newestRead_[r] && b < last; ++b) {
      if (known.at[r] < read_[r][b]) {
        return {b, r, false};
      }
    }
  }
  std::fill(written_.begin() + first, written_.begin() + last, epoch);
  std::fill(writer_.begin() + first, writer_.begin() + last, static_cast<uint8_t>(pipe));
  newestWrite_[pipe] = epoch;
  return {};
}

bool UbShadow::WrittenBy(uint32_t first, uint32_t last, int pipe, uint32_t epoch) const {
  for (uint32_t b = first; b < last; ++b) {
    if (written_[b] == epoch && writer_[b] == pipe) {
      return true;
    }
  }
  return false;
}

void UbShadow::Define(uint64_t from, uint64_t to) {
  ForBytes(
      from, to, [this](uint64_t b, uint32_t mask) { defined_[b] |= mask; },
      [this](uint64_t first, uint64_t last) {
        std::fill(defined_.begin() + static_cast<std::ptrdiff_t>(first),
                  defined_.begin() + static_cast<std::ptrdiff_t>(last), ~0u);
      });
}

void UbShadow::Undefine(uint64_t from, uint64_t to) {
  ForBytes(
      from, to, [this](uint64_t b, uint32_t mask) { defined_[b] &= ~mask; },
      [this](uint64_t first, uint64_t last) {
        std::fill(defined_.begin() + static_cast<std::ptrdiff_t>(first),
                  defined_.begin() + static_cast<std::ptrdiff_t>(last), 0u);
      });
}

bool UbShadow::Defined(uint64_t from, uint64_t to) const {
  uint32_t undefined = 0;
  ForBytes(
      from, to, [&](uint64_t b, uint32_t mask) { undefined |= mask & ~defined_[b]; },
      [&](uint64_t first, uint64_t last) {
        for (uint64_t b = first; b < last; ++b) {
          undefined |= ~defined_[b];
        }
      });
  return undefined == 0;
}

}  // namespace twin
