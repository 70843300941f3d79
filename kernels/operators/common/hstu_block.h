// The two vector cores of a block have their tiles in common, half of the rows each, so that a block needs the
// workspace of one core. One of the two, the leader, asks the cube.
#pragma once
#include "hstu_vector.h"

namespace hstu {

// Flags between the two: behind those of three Matmul objects, before those of SyncAll.
constexpr uint16_t SCORES_MADE = 6;
constexpr uint16_t SUMS_MADE = 7;
constexpr uint16_t TILE_STORED = 8;

__aicore__ inline int64_t Block() { return AscendC::GetBlockIdx() / AscendC::GetSubBlockNum(); }
__aicore__ inline bool Leads() { return AscendC::GetSubBlockIdx() == 0; }

// Each goes on when both are here; what the scalar unit of one has waited for is over for the other, too.
__aicore__ inline void Meet(uint16_t flag) {
  WaitFor<AscendC::HardEvent::S_MTE2>();
  AscendC::CrossCoreSetFlag<1, PIPE_MTE2>(flag);
  AscendC::CrossCoreWaitFlag(flag);
}

// A core's rows [begin, begin + rows) of a tile. The leader has the first half and takes its strips from the last row
// to the first, the other one has the rest in ascending order. So each may write what it makes of a row, rounded to
// half the size, towards the middle of the tile over rows that it has read, and all rounded rows follow each other.
struct Share {
  int64_t begin;
  int64_t rows;

  // First row of the strip of `count` rows after `done` of the share.
  __aicore__ inline int64_t Strip(int64_t done, int64_t count) const {
    return Leads() ? begin + rows - done - count : begin + done;
  }
};

__aicore__ inline int64_t RowsOfLeader(int64_t rows) { return (rows + 1) / 2; }
__aicore__ inline Share ShareOf(int64_t rows) {
  const int64_t half = RowsOfLeader(rows);
  return Leads() ? Share{0, half} : Share{half, rows - half};
}

// Rows [0, rows) of a tile of fp32 rounded to T, in the place of the fp32 ones.
template <typename T>
__aicore__ inline AscendC::GlobalTensor<T> Rounded(const AscendC::GlobalTensor<float>& tile, int64_t rows,
                                                   int64_t pitch) {
  const uint64_t lead = sizeof(T) == sizeof(float) ? 0 : static_cast<uint64_t>(RowsOfLeader(rows) * pitch);
  AscendC::GlobalTensor<T> rounded;
  rounded.SetGlobalBuffer((__gm__ T*)(tile.GetPhyAddr(0)) + lead, static_cast<uint64_t>(rows * pitch));
  return rounded;
}

// Workspace, in fp32 elements: for each block what its cores share, then what each has of its own; then what all have.
__aicore__ inline uint64_t BlockElements(const HstuTilingData& tiling) { return 2 * tiling.coreElements; }
__aicore__ inline uint64_t BlockPlace(const HstuTilingData& tiling) {
  return static_cast<uint64_t>(Block()) * BlockElements(tiling);
}
__aicore__ inline uint64_t PlaceOfAll(const HstuTilingData& tiling) {
  return static_cast<uint64_t>(AscendC::GetBlockNum()) * BlockElements(tiling);
}
// Where the offsets of HstuRelative count from; the first of them is half of what the cores share.
__aicore__ inline uint64_t CorePlace(const HstuTilingData& tiling, int64_t core) {
  const uint64_t block = static_cast<uint64_t>(core / AscendC::GetSubBlockNum());
  const uint64_t before = static_cast<uint64_t>(core % AscendC::GetSubBlockNum());
  const uint64_t shared = tiling.relative.turnedOffset;
  return block * BlockElements(tiling) + shared + before * (tiling.coreElements - shared);
}

}  // namespace hstu
