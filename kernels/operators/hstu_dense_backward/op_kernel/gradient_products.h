// The cube's side of the backward pass: its requests, and the tensors that they read.
#pragma once
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

#include "hstu_block.h"
#include "hstu_gradient_strips.h"
#include "hstu_result.h"
#include "hstu_tasks.h"

namespace hstu {

constexpr uint32_t SLOT_TILES = 2;  // a slot holds a tile of scores and one of products

struct BackwardInputs {
  GM_ADDR grad;
  GM_ADDR q;
  GM_ADDR k;
  GM_ADDR v;
  SequenceInputs sequences;
};

// [rows, heads, width] in GM.
template <typename T>
struct Rows {
  AscendC::GlobalTensor<T> tensor;
  int64_t heads;
  int64_t width;

  __aicore__ inline void Init(GM_ADDR address, int64_t rows, int64_t headsIn, int64_t widthIn) {
    heads = headsIn;
    width = widthIn;
    tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address), static_cast<uint64_t>(rows * heads * width));
  }
  __aicore__ inline AscendC::GlobalTensor<T> At(int64_t row, int64_t head) const {
    return tensor[static_cast<uint64_t>((row * heads + head) * width)];
  }
  __aicore__ inline int32_t Pitch() const { return static_cast<int32_t>(heads * width); }
};

template <typename T, const MatmulConfig& CONFIG>
class GradientProducts {
  using Plain = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;
  using Turned = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T, true>;
  using Sums = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, float>;

 public:
  matmul::Matmul<Plain, Turned, Sums, Sums, CONFIG> scores;      // q k^T and dO v^T
  matmul::Matmul<Turned, Plain, Sums, Sums, CONFIG> columnSums;  // P^T dO and dX^T q
  matmul::Matmul<Plain, Plain, Sums, Sums, CONFIG> rowSums;      // dX k
  Rows<T> grad;
  Rows<T> q;
  Rows<T> k;
  Rows<T> v;

  __aicore__ inline void Init(const BackwardInputs& inputs, GM_ADDR workspace, const HstuTilingData& tiling) {
    grad.Init(inputs.grad, tiling.queryRows, tiling.heads, tiling.valueDim);
    q.Init(inputs.q, tiling.queryRows, tiling.heads, tiling.dim);
    k.Init(inputs.k, tiling.keyRows, tiling.heads, tiling.dim);
    v.Init(inputs.v, tiling.keyRows, tiling.heads, tiling.valueDim);
    slotElements_ = tiling.slotElements;
    workspace_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace) + BlockPlace(tiling), BlockElements(tiling));
  }
  // From now on this core has slots of half the size for itself.
  __aicore__ inline void Part() {
    const uint64_t own = HSTU_SLOTS * SLOT_TILES * (slotElements_ / 2);
    slotElements_ /= 2;
    workspace_ = workspace_[Leads() ? 0 : own];
  }

  __aicore__ inline AscendC::GlobalTensor<float> ScoreTile(uint32_t number) const {
    return workspace_[static_cast<uint64_t>(number % HSTU_SLOTS) * SLOT_TILES * slotElements_];
  }
  __aicore__ inline AscendC::GlobalTensor<float> ProductTile(uint32_t number) const {
    return ScoreTile(number)[slotElements_];
  }
  // The tiles of a grid once the vector units have rounded them to T.
  __aicore__ inline AscendC::GlobalTensor<T> Weights(const Grid& grid, uint32_t number) const {
    return Rounded<T>(ScoreTile(number), grid.rows, grid.pitch);
  }
  __aicore__ inline AscendC::GlobalTensor<T> ScoreGradients(const Grid& grid, uint32_t number) const {
    return Rounded<T>(ProductTile(number), grid.rows, grid.pitch);
  }
  // Sums of a task: those of the task before are rounded by the time that its first product is asked for.
  __aicore__ inline AscendC::GlobalTensor<float> Accumulator() const {
    return workspace_[HSTU_SLOTS * SLOT_TILES * slotElements_];
  }

  // Scores and products of a grid into a slot: q, grad from query row `queryRow`, k, v from key row `keyRow`.
  __aicore__ inline void StartScores(const Grid& grid, int64_t queryRow, int64_t keyRow, uint32_t number) {
    StartScore(grid, q, k, queryRow, keyRow, ScoreTile(number));
    StartScore(grid, grad, v, queryRow, keyRow, ProductTile(number));
  }
  __aicore__ inline void FinishScores() {
    scores.WaitIterateAll();
    scores.WaitIterateAll();
    scores.End();
  }

  // target[columns, width] = (or +=) tile^T rows.
  __aicore__ inline void StartColumnSums(const Grid& grid, const AscendC::GlobalTensor<T>& tile, const Rows<T>& rows,
                                         int64_t row, const AscendC::GlobalTensor<float>& target, int64_t targetPitch,
                                         bool first) {
    const int32_t depth = static_cast<int32_t>(grid.rows);
    columnSums.SetOrgShape(static_cast<int32_t>(grid.pitch), rows.Pitch(), depth, depth,
                           static_cast<int32_t>(targetPitch));
    columnSums.SetSingleShape(static_cast<int32_t>(grid.columns), static_cast<int32_t>(rows.width), depth);
    columnSums.SetTensorA(tile, true);
    columnSums.SetTensorB(rows.At(row, grid.head));
    columnSums.template IterateAll<false>(target, first ? 0 : 1, false, true);
  }
  // target[rows, width] += tile rows.
  __aicore__ inline void StartRowSums(const Grid& grid, const AscendC::GlobalTensor<T>& tile, const Rows<T>& rows,
                                      int64_t row, const AscendC::GlobalTensor<float>& target, int64_t targetPitch) {
    const int32_t depth = static_cast<int32_t>(grid.columns);
    const int32_t height = static_cast<int32_t>(grid.rows);
    rowSums.SetOrgShape(height, rows.Pitch(), static_cast<int32_t>(grid.pitch), depth,
                        static_cast<int32_t>(targetPitch));
    rowSums.SetSingleShape(height, static_cast<int32_t>(rows.width), depth);
    rowSums.SetTensorA(tile);
    rowSums.SetTensorB(rows.At(row, grid.head));
    rowSums.template IterateAll<false>(target, 1, false, true);
  }

 private:
  __aicore__ inline void StartScore(const Grid& grid, const Rows<T>& left, const Rows<T>& right, int64_t queryRow,
                                    int64_t keyRow, const AscendC::GlobalTensor<float>& target) {
    const int32_t m = static_cast<int32_t>(grid.rows);
    const int32_t n = static_cast<int32_t>(grid.columns);
    scores.SetOrgShape(m, n, left.Pitch(), right.Pitch(), static_cast<int32_t>(grid.pitch));
    scores.SetSingleShape(m, n, static_cast<int32_t>(left.width));
    scores.SetTensorA(left.At(queryRow, grid.head));
    scores.SetTensorB(right.At(keyRow, grid.head), true);
    scores.template IterateAll<false>(target, 0, false, true);
  }

  uint64_t slotElements_;
  AscendC::GlobalTensor<float> workspace_;
};

// Rows of a tile's sequence.
__aicore__ inline int64_t QueryRow(const Sequence& sequence, int64_t position) {
  return sequence.queryStart + position - sequence.Shift();
}
__aicore__ inline int64_t KeyRow(const Sequence& sequence, int64_t position) { return sequence.keyStart + position; }

// Tiles in the form of scores: queries are the rows, keys, which the task owns, the columns.
__aicore__ inline Grid GridOf(const Tile& tile) {
  Grid grid;
  grid.batch = tile.sequence.index;
  grid.head = tile.head;
  grid.row = tile.other;
  grid.rows = tile.otherRows;
  grid.column = tile.own;
  grid.columns = tile.ownRows;
  grid.pitch = RoundUp(grid.columns, HSTU_COLUMN_UNIT);
  grid.full = tile.full;
  return grid;
}

}  // namespace hstu
