#pragma once
#include <cstdint>

struct BackwardCodegenAdagradUnweightedExactTilingData {
  int64_t weightElements;
  int64_t momentum1Elements;
  int64_t momentum2Elements;
  int64_t indexCount;  // L
  int64_t bags;        // T * B
  int64_t batch;       // B
  int64_t features;    // T
  int64_t gradRows;
  int64_t gradColumns;
  int64_t maxWidth;      // max_D
  int64_t chunk;         // records of one core, a multiple of a block of sums
  int64_t partialPitch;  // lanes of a partial sum in the workspace
  int64_t roundingSeed;
  uint32_t pooling;
  uint32_t indexBytes;
  uint32_t offsetBytes;
  uint32_t gradType;         // ElementType
  uint32_t weighted;         // indice_weights is there
  uint32_t weightsGradient;  // and its gradient is asked for
  uint32_t optimizer;        // Optimizer
  uint32_t tileColumns;      // columns of a row that are held at once, a multiple of 16
  uint32_t groupRows;        // contributions of one buffer: 1, 2, 4 .. 32
  int32_t weightDecayMode;
  float learningRate;
  float eps;
  float beta1;
  float beta2;
  float rest1;  // 1 - beta1, which fp32 of beta1 does not give
  float rest2;
  float weightDecay;
  float maxNorm;
  float maxGradient;  // below 0: no clipping
  float correction1;  // 1 / (1 - beta1^iter)
  float correction2;
  uint32_t phased;    // row-wise Adagrad of rows that are wider than a tile
  uint32_t rounding;  // rows of 16 bits are rounded by chance
};
