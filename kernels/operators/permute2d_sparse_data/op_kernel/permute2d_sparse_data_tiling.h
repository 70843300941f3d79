#pragma once
#include <cstdint>

struct Permute2dSparseDataTilingData {
  int64_t features;  // T
  int64_t batch;     // B: elements of a row of lengths
  int64_t copies;    // P: entries of permute
  int64_t rows;      // L: rows of values and weights
  int64_t outRows;
  int64_t valueRowBytes;
  int64_t weightRowBytes;  // 0: no weights
  int64_t rowsPerCore;     // share of the permuted values
  int64_t copiesPerCore;   // share of the permuted lengths
  int64_t lengthsPerCore;  // share of the lengths that are looked at
  int64_t lengthColumns;   // B where lengths have two dimensions, else 0
  uint32_t tileBytes;
  uint32_t fillBytes;
};
