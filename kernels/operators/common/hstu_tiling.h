// What the host tells the HSTU kernels. Rows of q, k, v are [heads, D]; a sequence is a range of rows.
#pragma once
#include <cstdint>

#include "kernel_tiling/kernel_tiling.h"

constexpr uint32_t HSTU_CAUSAL = 0;
constexpr uint32_t HSTU_UPPER = 1;
constexpr uint32_t HSTU_FULL = 2;
constexpr uint32_t HSTU_CUSTOM = 3;  // the caller's weights

constexpr uint32_t HSTU_COLUMN_UNIT = 64;   // columns of a tile in workspace and unified buffer are padded to this
constexpr uint32_t HSTU_SLOTS = 2;          // tiles in flight per block
constexpr int64_t HSTU_SEGMENTS = 128;      // of a head at most
constexpr int64_t HSTU_SEGMENT_BLOCKS = 4;  // of a segment at least: its sums are cleared and read once more

// A [batch or 1, heads or 1, size, size] input; the stride of a broadcast dimension is 0. Strides in elements.
struct HstuSquare {
  int64_t batchStride;
  int64_t headStride;
  int64_t size;
  uint32_t present;
  uint32_t bytes;  // of an element
};

constexpr int64_t HSTU_CELLS = 512;  // of the table from seconds to time buckets
constexpr int64_t HSTU_MAX_BUCKETS = 512;
constexpr int64_t HSTU_TURN = 512;       // entries of the position table that are turned at once
constexpr int64_t HSTU_SUM_LANES = 8;    // partial sums of a time bucket
constexpr int64_t HSTU_TILE_SIDE = 512;  // rows or columns of a tile at most

// The relative bias; positions 0: none. Each vector core keeps a turned copy of the position table in the workspace,
// and in the backward pass sums of the same form, then the sums of its time buckets: behind what both share.
struct HstuRelative {
  int64_t positions;
  int64_t buckets;
  uint64_t turnedElements;  // HSTU_TURN of lead, the positions, HSTU_TILE_SIDE of tail; a multiple of 64
  uint64_t turnedOffset;    // in the workspace of a core, in fp32 elements
  uint64_t sumsOffset;      // the sums of the time buckets follow
  uint64_t timeSumsOffset;
  uint64_t sumElements;  // of both
};

struct HstuTilingData {
  int64_t queryRows;    // rows of q and of the result
  int64_t keyRows;      // rows of k and v
  int64_t fixedLength;  // of every sequence; 0: offsets tell
  int64_t maxSeqLen;    // of a sequence, as the caller says; 0: unknown
  int64_t batch;
  int64_t heads;
  int64_t dim;
  int64_t valueDim;
  HstuSquare mask;
  HstuSquare bias;
  uint32_t maskType;
  uint32_t indexBytes;  // of offsets and counts
  uint32_t hasKeyOffsets;
  uint32_t hasContexts;
  uint32_t hasTargets;
  int32_t groupSize;
  int32_t maxAttnLen;  // window over the tokens of the history; 0: none
  int32_t minFullAttnSeqLen;
  int32_t windowSize;  // window by distance in the row; -1: none
  float scale;         // 0: one over the longest sequence
  float alpha;
  int64_t pages;  // of the key-value cache; 0: no cache
  int64_t pageSize;
  int64_t pageIds;
  int64_t segments;        // backward: of each head, wanted of all sequences together
  int64_t slabRows;        // rows of sums of a head, of all segments
  uint32_t blockRows;      // rows of a task
  uint32_t chunk;          // columns of a tile at most
  uint32_t stripElements;  // of the part of a tile in the unified buffer
  uint32_t sumsBias;       // the bias gradient sums over a broadcast dimension
  uint64_t slotElements;   // fp32 elements of a tile in the workspace
  uint64_t accumulatorElements;
  uint64_t coreElements;                   // workspace of a vector core, half of its block's
  AscendC::tiling::TCubeTiling scores;     // rows of queries times rows of keys, turned
  AscendC::tiling::TCubeTiling values;     // forward: weights times values; backward: tiles, turned, times rows
  AscendC::tiling::TCubeTiling gradients;  // backward: tiles times rows
  HstuRelative relative;
};
