#pragma once
#include <cstdint>

struct Permute2dSparseDataGradTilingData {
  int64_t features;  // T
  int64_t copies;    // P
  int64_t gradRows;
  int64_t rows;       // L: rows of the result
  int64_t innerSize;  // D: elements of a row
  int64_t rowsPerCore;
  uint32_t tileBytes;
  uint32_t fillBytes;
  uint32_t sumElements;  // elements that are added up together
  uint32_t reserved;
};
