// The gradient of a bias that several sequences or heads share: each cell is the sum of their score gradients. A task
// owns a tile of the bias, recomputes the score gradients of every sequence and head behind it, and adds them in fp32
// in a fixed order. The tile of the sum stays in the workspace (L2); it is rounded once.
#pragma once
#include "gradient_pass.h"

namespace hstu {

template <typename T, const MatmulConfig& CONFIG>
class BiasPass {
 public:
  using Products = GradientProducts<T, CONFIG>;

  __aicore__ inline void Init(const HstuTilingData& tiling, const BackwardInputs& inputs,
                              const BackwardOutputs& outputs, Products& products, GradientStrips<T>& strips) {
    tiling_ = &tiling;
    products_ = &products;
    strips_ = &strips;
    sequences_.Init(tiling, inputs.sequences);
    mask_.Init(tiling);
    size_ = tiling.bias.size;
    edge_ = tiling.blockRows;
    side_ = (size_ + edge_ - 1) / edge_;
    batches_ = tiling.bias.batchStride == 0 ? 1 : tiling.batch;
    heads_ = tiling.bias.headStride == 0 ? 1 : tiling.heads;
    bias_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(outputs.bias),
                          static_cast<uint64_t>(batches_ * heads_ * size_ * size_));
  }

  __aicore__ inline void Process() {
    sequences_.Rewind(sequence_);
    const int64_t tasks = batches_ * heads_ * side_ * side_;
    const int64_t cores = AscendC::GetBlockNum() * AscendC::GetSubBlockNum();
    for (int64_t task = AscendC::GetBlockIdx(); task < tasks; task += cores) {
      const int64_t matrix = task / (side_ * side_);
      const int64_t tile = task % (side_ * side_);
      SumTile(matrix / heads_, matrix % heads_, tile / side_ * edge_, tile % side_ * edge_);
    }
  }

 private:
  __aicore__ inline void SumTile(int64_t batch, int64_t head, int64_t row, int64_t column) {
    Grid tile;
    tile.row = row;
    tile.rows = Least(edge_, size_ - row);
    tile.column = column;
    tile.columns = Least(edge_, size_ - column);
    tile.pitch = RoundUp(tile.columns, HSTU_COLUMN_UNIT);
    ZeroSum(tile);
    if (batches_ == 1) {
      sequences_.Rewind(sequence_);
      while (sequences_.Next(sequence_)) {
        AddSequence(tile, sequence_, head);
      }
    } else {
      // Tasks come in the order of sequences.
      while (sequence_.index < batch) {
        sequences_.Next(sequence_);
      }
      AddSequence(tile, sequence_, head);
    }
    StoreSum(tile, batch * heads_ + head);
  }

  // Adds the heads of a sequence behind the tile. Only rows and columns of the sequence take part.
  __aicore__ inline void AddSequence(const Grid& tile, const Sequence& sequence, int64_t head) {
    Grid part = tile;
    part.row = Most(tile.row, sequence.Shift());
    part.rows = Least(tile.row + tile.rows, sequence.keys) - part.row;
    part.columns = Least(tile.column + tile.columns, sequence.keys) - tile.column;
    if (part.rows <= 0 || part.columns <= 0) {
      return;
    }
    sequences_.SetMask(sequence, mask_);
    const BlockView view = mask_.Block(part.row, part.row + part.rows);
    if (!view.Sees(part.column, part.column + part.columns)) {
      return;
    }
    part.full = view.SeesAll(part.column, part.column + part.columns);
    part.batch = sequence.index;
    const int64_t last = heads_ == 1 ? tiling_->heads : head + 1;
    for (part.head = heads_ == 1 ? 0 : head; part.head < last; ++part.head) {
      products_->StartScores(part, QueryRow(sequence, part.row), KeyRow(sequence, part.column), 0);
      products_->FinishScores();
      AddPart(part, (part.row - tile.row) * tile.pitch);
      // The next products go into the same slot.
      AscendC::PipeBarrier<PIPE_ALL>();
    }
  }
  __aicore__ inline void AddPart(const Grid& part, int64_t sumOffset) {
    const int64_t atOnce = strips_->RowsAtOnce(part);
    for (int64_t from = 0; from < part.rows; from += atOnce) {
      const Grid strip = part.Rows(from, Least(atOnce, part.rows - from));
      const uint64_t at = static_cast<uint64_t>(from * part.pitch);
      strips_->Differentiate(strip, mask_, products_->ScoreTile(0)[at], products_->ProductTile(0)[at]);
      // Columns behind the sequence's end hold what the workspace held.
      if (strip.columns < strip.pitch) {
        ClearPadding(strips_->ScoreGradients(), strip);
      }
      Accumulate(strip, Sum()[static_cast<uint64_t>(sumOffset) + at]);
      strips_->Finish();
    }
  }
  __aicore__ inline static void ClearPadding(const AscendC::LocalTensor<float>& tensor, const Grid& strip) {
    for (int64_t r = 0; r < strip.rows; ++r) {
      ZeroRange(tensor, r * strip.pitch + strip.columns, (r + 1) * strip.pitch);
    }
    Then();
  }
  __aicore__ inline void Accumulate(const Grid& strip, const AscendC::GlobalTensor<float>& sum) {
    const uint32_t count = static_cast<uint32_t>(strip.Count());
    AscendC::LocalTensor<float> old = strips_->In().template AllocTensor<float>();
    // The store of an earlier part must be over.
    WaitFor<AscendC::HardEvent::MTE3_MTE2>();
    AscendC::DataCopy(old, sum, count);
    strips_->In().EnQue(old);
    old = strips_->In().template DeQue<float>();
    AscendC::Add(old, old, strips_->ScoreGradients(), static_cast<int32_t>(count));
    WaitFor<AscendC::HardEvent::V_MTE3>();
    AscendC::DataCopy(sum, old, count);
    WaitFor<AscendC::HardEvent::MTE3_V>();
    WaitFor<AscendC::HardEvent::MTE3_MTE2>();
    strips_->In().FreeTensor(old);
  }

  __aicore__ inline AscendC::GlobalTensor<float> Sum() const { return products_->ProductTile(1); }
  __aicore__ inline void ZeroSum(const Grid& tile) {
    const int64_t elements = tile.rows * tile.pitch;
    const int64_t atOnce = tiling_->stripElements;
    for (int64_t from = 0; from < elements; from += atOnce) {
      const uint32_t count = static_cast<uint32_t>(Least(atOnce, elements - from));
      AscendC::LocalTensor<float> zeros = strips_->In().template AllocTensor<float>();
      WaitFor<AscendC::HardEvent::MTE2_V>();
      AscendC::Duplicate(zeros, 0.0f, static_cast<int32_t>(count));
      WaitFor<AscendC::HardEvent::V_MTE3>();
      AscendC::DataCopy(Sum()[static_cast<uint64_t>(from)], zeros, count);
      WaitFor<AscendC::HardEvent::MTE3_V>();
      strips_->In().FreeTensor(zeros);
    }
    WaitFor<AscendC::HardEvent::MTE3_MTE2>();
  }
  __aicore__ inline void StoreSum(const Grid& tile, int64_t matrix) {
    WaitFor<AscendC::HardEvent::MTE3_MTE2>();
    const int64_t atOnce = strips_->RowsAtOnce(tile);
    for (int64_t from = 0; from < tile.rows; from += atOnce) {
      const Grid strip = tile.Rows(from, Least(atOnce, tile.rows - from));
      const int64_t place = (matrix * size_ + strip.row) * size_ + strip.column;
      strips_->StoreRounded(strip, Sum()[static_cast<uint64_t>(from * tile.pitch)], bias_[static_cast<uint64_t>(place)],
                            size_);
    }
    // The next tile uses the workspace anew.
    AscendC::PipeBarrier<PIPE_ALL>();
  }

  const HstuTilingData* tiling_;
  Products* products_;
  GradientStrips<T>* strips_;
  Sequences sequences_;
  Sequence sequence_;
  Mask mask_;
  AscendC::GlobalTensor<T> bias_;
  int64_t size_;
  int64_t edge_;
  int64_t side_;
  int64_t batches_;
  int64_t heads_;
};

}  // namespace hstu
