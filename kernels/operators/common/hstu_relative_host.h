// Host side of the relative bias: its inputs, and what it needs of workspace and unified buffer.
#pragma once
#include "hstu_launch.h"

namespace hstu {

// Positions of the inputs position, time, times, cells, one after the other.
inline bool DescribeRelative(gert::TilingContext* context, std::size_t first, HstuTilingData& tiling) {
  int64_t sizes[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& shape = context->GetRequiredInputShape(first + i)->GetStorageShape();
    if (shape.GetDimNum() != 1) {
      return false;
    }
    sizes[i] = shape.GetDim(0);
  }
  tiling.relative.positions = sizes[0];
  tiling.relative.buckets = sizes[1];
  return sizes[0] >= 1 && sizes[0] <= INT32_MAX && sizes[1] >= 1 && sizes[1] <= HSTU_MAX_BUCKETS &&
         sizes[2] == tiling.keyRows && sizes[3] == HSTU_CELLS && *context->GetAttrs()->GetInt(MAX_SEQ_LEN) <= sizes[0];
}

// Adds to the workspace of a core: the turned table, and in the backward pass the sums.
inline void SizeRelative(bool learns, HstuTilingData& tiling) {
  HstuRelative& relative = tiling.relative;
  relative.turnedElements =
      static_cast<uint64_t>(RoundUpTo(HSTU_TURN + relative.positions + HSTU_TILE_SIDE, HSTU_COLUMN_UNIT));
  relative.turnedOffset = tiling.coreElements;
  tiling.coreElements += relative.turnedElements;
  if (learns) {
    relative.sumsOffset = tiling.coreElements;
    relative.timeSumsOffset = relative.sumsOffset + relative.turnedElements;
    relative.sumElements =
        relative.turnedElements + static_cast<uint64_t>(RoundUpTo(relative.buckets * HSTU_SUM_LANES, HSTU_TURN));
    tiling.coreElements += relative.sumElements;
  }
}

// Bytes of unified buffer per element of a strip: the strip of the position table, seconds, values and bits.
constexpr uint32_t RELATIVE_BYTES = 3 * sizeof(float) + 1;

// Bytes of unified buffer beside the strips: both tables of time, times and their parts, the turner, and the sums.
inline uint32_t RelativeBytesBeside(bool learns, const HstuTilingData& tiling) {
  const int64_t tables = 2 * RoundUpTo(tiling.relative.buckets * static_cast<int64_t>(sizeof(float)), 32);
  const int64_t times = 2 * HSTU_TILE_SIDE * static_cast<int64_t>(sizeof(int64_t) + sizeof(float));
  const int64_t turner = 3 * HSTU_TURN * static_cast<int64_t>(sizeof(float));
  const int64_t sums = tiling.relative.buckets * HSTU_SUM_LANES * static_cast<int64_t>(sizeof(float));
  return static_cast<uint32_t>(tables + times + turner + (learns ? sums : 0));
}

// One column per (type of q, type of offsets and counts).
inline Columns RelativeColumns() {
  Columns columns;
  for (const auto data : {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16}) {
    for (const auto index : {ge::DT_INT64, ge::DT_INT32}) {
      columns.data.push_back(data);
      columns.index.push_back(index);
      columns.format.push_back(ge::FORMAT_ND);
    }
  }
  return columns;
}

template <typename Definition>
void DeclareTables(Definition& op, const Columns& columns) {
  const std::vector<ge::DataType> floats(columns.data.size(), ge::DT_FLOAT);
  const std::vector<ge::DataType> integers(columns.data.size(), ge::DT_INT64);
  for (const char* input : {"position", "time"}) {
    op.Input(input).ParamType(ops::REQUIRED).DataType(floats).Format(columns.format).AutoContiguous();
  }
  for (const char* input : {"times", "cells"}) {
    op.Input(input).ParamType(ops::REQUIRED).DataType(integers).Format(columns.format).AutoContiguous();
  }
  for (const char* input : {"seq_offset", "num_context", "num_target"}) {
    op.Input(input).ParamType(ops::OPTIONAL).DataType(columns.index).Format(columns.format).AutoContiguous();
  }
}

}  // namespace hstu
