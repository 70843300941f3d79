#pragma once
#include <cstdint>

struct SplitEmbeddingCodegenForwardUnweightedTilingData {
  int64_t weightElements;
  int64_t indexCount;  // L
  int64_t bags;        // T * B
  int64_t batch;       // B
  int64_t features;    // T
  int64_t outColumns;  // of a row of the result
  uint32_t pooling;
  uint32_t indexBytes;
  uint32_t offsetBytes;
  uint32_t outType;      // ElementType
  uint32_t weighted;     // indice_weights is there
  uint32_t tileColumns;  // columns of a row that are held at once, a multiple of 16
  uint32_t groupRows;    // rows of one buffer
  uint32_t integerTile;  // indices that are loaded at once
};
