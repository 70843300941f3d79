// What the host tells the kernels around HSTU's attention.
#pragma once
#include <cstdint>

#include "kernel_tiling/kernel_tiling.h"

constexpr uint32_t LAYER_UNIT = 16;         // elements to which rows in local memory and in the workspace are padded
constexpr uint32_t LAYER_ROWS = 32;         // rows of a strip at most
constexpr uint32_t LAYER_LANES = 64;        // fp32 lanes of a vector instruction
constexpr uint32_t LAYER_MAX_WIDTH = 2048;  // of rows that are normalised or added: one fits in a strip
constexpr uint32_t LAYER_MAX_PARTS = 16;

struct LayerTilingData {
  int64_t tokens;
  int64_t blocks;         // of blockRows tokens; the cores take turns
  uint32_t blockRows;     // tokens of a product
  uint32_t width;         // of the rows that are normalised
  uint32_t inner;         // columns of the other side of the product
  uint32_t panelColumns;  // of a product at most: the projection's
  uint32_t stripElements;
  uint32_t hasKeep;
  float scale;  // of what dropout keeps
  float eps;
  uint32_t parts;
  uint32_t split[LAYER_MAX_PARTS];  // widths of the parts, which sum to `inner`
  uint64_t operandElements;         // of a block of the product's left side in the workspace: two of them
  uint64_t sumElements;             // of a block of sums in the workspace, fp32
  uint64_t sumBlocks;               // how many of them; 0: all sums stand in the results
  uint64_t coreBytes;               // workspace of a vector core
  AscendC::tiling::TCubeTiling product;
  AscendC::tiling::TCubeTiling gradient;
};
