#pragma once
#include <cstdint>

struct BoundsCheckIndicesTilingData {
  int64_t tables;  // T
  int64_t bags;    // entries of offsets minus one
  int64_t count;   // L: indices
  int64_t batch;   // B of every table; -1: b_offsets says
  int64_t bagsPerCore;
  int64_t indicesPerCore;
  uint32_t offsetTile;  // elements
  uint32_t indexTile;
  uint32_t repair;         // 0: FATAL, nothing is changed
  uint32_t countWarnings;  // 1: WARNING
};
