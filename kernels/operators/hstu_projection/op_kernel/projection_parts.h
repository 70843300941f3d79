// What forward and backward pass share: the normed rows of a block, the panels of its products, part by part, and the
// strips of a panel.
#pragma once
#include "layer_blocks.h"
#include "layer_norm.h"

// Of fp32. A product beyond fp16 comes infinite from the cube; bounded by this, its SiLU and slope are what they tend
// to.
constexpr float LARGEST = 3.402823466e+38f;

// Some columns of one part of a block's products: what the cube makes at once.
struct Panel {
  layer::Block block;
  uint32_t part = 0;
  uint32_t start = 0;   // of the part among the columns of weight
  uint32_t width = 0;   // of the part
  uint32_t column = 0;  // in the part
  uint32_t columns = 0;
  bool first = false;  // of its block
  bool last = false;
};

template <typename T>
class Panels {
 public:
  __aicore__ inline void Init(GM_ADDR workspace, const LayerTilingData& tiling) {
    tiling_ = &tiling;
    blocks.Init(workspace, tiling);
    part_ = tiling.parts;
  }
  __aicore__ inline bool Next(Panel& panel) {
    const bool first = part_ == tiling_->parts;
    if (first) {
      if (!blocks.Next(block_)) {
        return false;
      }
      part_ = 0;
      start_ = 0;
      column_ = 0;
    }
    const uint32_t width = tiling_->split[part_];
    const uint32_t columns = layer::Least(tiling_->panelColumns, width - column_);
    panel = {block_, part_, start_, width, column_, columns, first, false};
    column_ += columns;
    if (column_ == width) {
      ++part_;
      start_ += width;
      column_ = 0;
    }
    panel.last = part_ == tiling_->parts;
    return true;
  }

  // to = rows weight[:, panel], with rows `pitch` and those of `to` `toPitch` elements apart.
  template <typename Product>
  __aicore__ inline void Start(Product& product, const Panel& panel, const AscendC::GlobalTensor<T>& rows,
                               uint32_t pitch, const AscendC::GlobalTensor<T>& weight,
                               const AscendC::GlobalTensor<T>& to, uint32_t toPitch) const {
    const int32_t m = static_cast<int32_t>(panel.block.rows);
    const int32_t k = static_cast<int32_t>(tiling_->width);
    product.SetOrgShape(m, static_cast<int32_t>(tiling_->inner), static_cast<int32_t>(pitch), k,
                        static_cast<int32_t>(toPitch));
    product.SetSingleShape(m, static_cast<int32_t>(panel.columns), k);
    product.SetTensorA(rows);
    product.SetTensorB(weight[panel.start + panel.column]);
    product.template IterateAll<false>(to, 0, false, true);
  }

  layer::Blocks<T> blocks;

 private:
  const LayerTilingData* tiling_;
  layer::Block block_;
  uint32_t part_;
  uint32_t start_;
  uint32_t column_;
};

// A strip of a panel.
struct Piece {
  uint32_t row;  // in the block
  uint32_t rows;
  uint32_t column;  // in the part
  uint32_t columns;

  __aicore__ inline layer::Shape ShapeFrom(uint64_t pitch) const { return {rows, columns, pitch}; }
  __aicore__ inline int32_t Elements() const { return ShapeFrom(columns).Elements(); }
};

// The pieces of a panel, by columns, then rows.
class Pieces {
 public:
  __aicore__ inline void Open(const LayerTilingData& tiling, const Panel& panel) {
    stripElements_ = tiling.stripElements;
    blockRows_ = panel.block.rows;
    end_ = panel.column + panel.columns;
    at_ = {0, 0, panel.column, 0};
  }
  __aicore__ inline bool Next(Piece& piece) {
    at_.row += at_.rows;
    if (at_.row >= blockRows_) {
      at_.row = 0;
      at_.column += at_.columns;
    }
    if (at_.column >= end_) {
      return false;
    }
    at_.columns = layer::Least(end_ - at_.column, LAYER_MAX_WIDTH);
    at_.rows = layer::Least(stripElements_ / layer::PitchOf(at_.columns), blockRows_ - at_.row);
    piece = at_;
    return true;
  }

 private:
  uint32_t stripElements_;
  uint32_t blockRows_;
  uint32_t end_;  // column of the part
  Piece at_;
};

// R: the type of x, T or fp32.
template <typename T, typename R>
class ProjectionRows {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR x, const LayerTilingData& tiling) {
    width_ = tiling.width;
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ R*>(x), static_cast<uint64_t>(tiling.tokens) * width_);
    strips.Init(pipe, tiling.stripElements);
    norm.Init(pipe, width_, tiling.eps);
    const uint32_t bytes = tiling.stripElements * static_cast<uint32_t>(sizeof(float));
    pipe->InitBuffer(valuesBuffer_, bytes);
    pipe->InitBuffer(scratchBuffer_, bytes);
    values = valuesBuffer_.template Get<float>();
    scratch = scratchBuffer_.template Get<float>();
  }
  __aicore__ inline layer::Shape ShapeOf(uint32_t rows) const { return {rows, width_, width_}; }
  __aicore__ inline uint64_t At(int64_t token) const { return static_cast<uint64_t>(token) * width_; }

  // norm(x) of `rows` tokens in `values`.
  __aicore__ inline void Fetch(int64_t token, uint32_t rows) {
    strips.Fetch(values, x_[At(token)], ShapeOf(rows));
    norm.Apply(values, scratch, rows);
  }

  // norm(x) of a block, rounded to T, to rows `pitch` elements apart: what the cube reads.
  __aicore__ inline void Store(const layer::Block& block, const AscendC::GlobalTensor<T>& to, uint32_t pitch) {
    const uint32_t atOnce = strips.Rows(width_);
    for (uint32_t row = 0; row < block.rows; row += atOnce) {
      const uint32_t rows = layer::Least(atOnce, block.rows - row);
      Fetch(block.first + row, rows);
      strips.Put(to[static_cast<uint64_t>(row) * pitch], values, layer::Shape{rows, width_, pitch});
    }
    layer::WaitFor<AscendC::HardEvent::MTE3_S>();
  }

  layer::Strips<R> strips;
  layer::Norm norm;
  layer::Floats values;
  layer::Floats scratch;

 private:
  uint32_t width_;
  AscendC::GlobalTensor<R> x_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> valuesBuffer_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> scratchBuffer_;
};
