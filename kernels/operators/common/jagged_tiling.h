// What the jagged kernels are told by their host side. Plain data, read by the kernel as it stands.
#pragma once
#include <cstdint>

constexpr uint32_t JAGGED_MAX_DIMS = 5;

struct JaggedTilingData {
  int64_t valueRows;                    // L: rows of values
  int64_t innerSize;                    // D: elements of a row
  int64_t elementsPerCore;              // share of the output, a multiple of 512 bytes
  int64_t totalElements;                // of the output
  int64_t nodes[JAGGED_MAX_DIMS];       // per level: entries of its offsets minus one
  int64_t maxLengths[JAGGED_MAX_DIMS];  // S1..SK
  uint32_t dims;                        // K
  uint32_t tileBytes;                   // one copy buffer
  uint32_t fillBytes;                   // the block of padding
  uint32_t reserved;
  uint64_t fillPattern;  // 8 bytes of padding, whatever the width of an element
};
