// What forward and backward pass share: the normed rows of a block, the panels of its products, and the strips of a
// panel, part by part.
#pragma once
#include "layer_blocks.h"
#include "layer_norm.h"

// Of fp32. A product beyond fp16 comes infinite from the cube; bounded by this, its SiLU and slope are what they tend
// to.
constexpr float LARGEST = 3.402823466e+38f;

// A stretch of columns of one part, some rows of a block.
struct Piece {
  uint32_t row;  // in the block
  uint32_t rows;
  uint32_t part;
  uint32_t column;  // in the part
  uint32_t columns;
  uint32_t start;  // of the part among the columns of the product
  uint32_t width;  // of the part

  __aicore__ inline layer::Shape ShapeFrom(uint64_t pitch) const { return {rows, columns, pitch}; }
  __aicore__ inline int32_t Elements() const { return ShapeFrom(columns).Elements(); }
};

// Some columns of a block's products: what the cube makes at once.
struct Panel {
  layer::Block block;
  uint32_t column = 0;
  uint32_t columns = 0;
  uint32_t slot = 0;   // 0 and 1 by turns
  bool first = false;  // of its block
  bool last = false;
};

template <typename T>
class Panels {
 public:
  __aicore__ inline void Init(GM_ADDR workspace, const LayerTilingData& tiling) {
    tiling_ = &tiling;
    blocks.Init(workspace, tiling);
    next_ = tiling.inner;
    taken_ = 0;
  }
  __aicore__ inline bool Next(Panel& panel) {
    if (next_ >= tiling_->inner) {
      if (!blocks.Next(block_)) {
        return false;
      }
      next_ = 0;
    }
    panel.block = block_;
    panel.column = next_;
    panel.columns = layer::Least(tiling_->panelColumns, tiling_->inner - next_);
    panel.slot = taken_++ % 2;
    panel.first = next_ == 0;
    next_ += panel.columns;
    panel.last = next_ >= tiling_->inner;
    return true;
  }
  // In the workspace.
  __aicore__ inline uint32_t Pitch() const { return layer::PitchOf(tiling_->panelColumns); }
  __aicore__ inline AscendC::GlobalTensor<T> Sums(const Panel& panel) const { return blocks.Sums(panel.slot); }

  // sums = rows weight[:, panel], with rows `pitch` elements apart.
  template <typename Product>
  __aicore__ inline void Start(Product& product, const Panel& panel, const AscendC::GlobalTensor<T>& rows,
                               uint32_t pitch, const AscendC::GlobalTensor<T>& weight) const {
    const int32_t m = static_cast<int32_t>(panel.block.rows);
    const int32_t k = static_cast<int32_t>(tiling_->width);
    layer::WaitFor<AscendC::HardEvent::MTE2_S>();  // the slot's sums have been read
    product.SetOrgShape(m, static_cast<int32_t>(tiling_->inner), static_cast<int32_t>(pitch), k,
                        static_cast<int32_t>(Pitch()));
    product.SetSingleShape(m, static_cast<int32_t>(panel.columns), k);
    product.SetTensorA(rows);
    product.SetTensorB(weight[panel.column]);
    product.template IterateAll<false>(Sums(panel), 0, false, true);
  }

  layer::Blocks<T, T> blocks;

 private:
  const LayerTilingData* tiling_;
  layer::Block block_;
  uint32_t next_;  // column
  uint32_t taken_;
};

// The pieces of a panel, by parts, then columns, then rows.
class Pieces {
 public:
  __aicore__ inline void Open(const LayerTilingData& tiling, const Panel& panel) {
    tiling_ = &tiling;
    blockRows_ = panel.block.rows;
    end_ = panel.column + panel.columns;
    at_ = {0, 0, 0, 0, 0, 0, tiling.split[0]};
    while (at_.start + at_.width <= panel.column) {
      NextPart();
    }
    at_.column = panel.column - at_.start;
    first_ = true;
  }
  __aicore__ inline bool Next(Piece& piece) {
    if (!first_) {
      at_.row += at_.rows;
      if (at_.row >= blockRows_) {
        at_.row = 0;
        at_.column += at_.columns;
      }
      if (at_.start + at_.column >= end_) {
        return false;
      }
      if (at_.column >= at_.width) {
        NextPart();
      }
    }
    first_ = false;
    at_.columns = layer::Least(layer::Least(at_.width, end_ - at_.start) - at_.column, LAYER_MAX_WIDTH);
    at_.rows = layer::Least(tiling_->stripElements / layer::PitchOf(at_.columns), blockRows_ - at_.row);
    piece = at_;
    return true;
  }

 private:
  __aicore__ inline void NextPart() {
    at_.column = 0;
    at_.start += at_.width;
    ++at_.part;
    at_.width = tiling_->split[at_.part];
  }

  const LayerTilingData* tiling_;
  uint32_t blockRows_;
  uint32_t end_;  // column of the product
  Piece at_;
  bool first_;
};

template <typename T>
class ProjectionRows {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR x, const LayerTilingData& tiling) {
    width_ = tiling.width;
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), static_cast<uint64_t>(tiling.tokens) * width_);
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

  layer::Strips<T> strips;
  layer::Norm norm;
  layer::Floats values;
  layer::Floats scratch;

 private:
  uint32_t width_;
  AscendC::GlobalTensor<T> x_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> valuesBuffer_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> scratchBuffer_;
};
