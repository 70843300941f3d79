#pragma once
#include <cstdint>

struct AsynchronousCompleteCumsumTilingData {
  int64_t rows;
  int64_t columns;      // of the input; the output has one more
  int64_t rowsPerCore;  // key 1: whole rows
  int64_t chunk;        // key 2: input elements of one core's part of a row
  uint32_t parts;       // key 2: cores that share a row
  uint32_t tileElements;
};
