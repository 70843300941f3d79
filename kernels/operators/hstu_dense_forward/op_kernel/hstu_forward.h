// attn_output = (SiLU((q k^T + bias) alpha) scale mask) v per sequence and head, without softmax.
// A block takes tiles (block of queries x stretch of keys) one after the other. For a tile the cube computes the scores
// into a slot of the workspace, the two vector cores turn them into weights in place, half of the rows each, the cube
// multiplies these with the values. Requests to the cube run ahead: while the vector units have the first half of their
// rows, the cube multiplies the tile before with its values; then it makes the next tile's scores in that slot, while
// the vector units have the rest.
#pragma once
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

#include "hstu_block.h"
#include "hstu_cube.h"
#include "hstu_faults.h"
#include "hstu_result.h"
#include "hstu_tasks.h"

struct ForwardInputs {
  GM_ADDR q;
  GM_ADDR k;
  GM_ADDR v;
  GM_ADDR cache;
  hstu::SequenceInputs sequences;
  GM_ADDR faults;
  fault::Operator which;
};

// Addends: what is added to the scores and what multiplies the weights (hstu_addends.h, hstu_relative.h).
template <typename T, const MatmulConfig& CONFIG, typename Addends>
class HstuForward {
  using Rows = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T>;
  using Columns = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T, true>;
  using Sums = AscendC::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, float>;

 public:
  matmul::Matmul<Rows, Columns, Sums, Sums, CONFIG> scores;
  matmul::Matmul<Rows, Rows, Sums, Sums, CONFIG> values;

  template <typename... AddendInputs>
  __aicore__ inline void Init(AscendC::TPipe* pipe, const ForwardInputs& inputs, GM_ADDR output, GM_ADDR workspace,
                              const HstuTilingData& tiling, const AddendInputs&... addends) {
    tiling_ = &tiling;
    const uint64_t heads = static_cast<uint64_t>(tiling.heads);
    const uint64_t width = heads * static_cast<uint64_t>(tiling.dim);
    const uint64_t valueWidth = heads * static_cast<uint64_t>(tiling.valueDim);
    q_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(inputs.q), static_cast<uint64_t>(tiling.queryRows) * width);
    k_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(inputs.k), static_cast<uint64_t>(tiling.keyRows) * width);
    v_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(inputs.v), static_cast<uint64_t>(tiling.keyRows) * valueWidth);
    cache_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(inputs.cache),
                           2 * static_cast<uint64_t>(tiling.pages * tiling.pageSize) * width);
    workspace_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace) + hstu::BlockPlace(tiling),
                               hstu::BlockElements(tiling));
    output_.Init(output, tiling.queryRows, tiling.heads, tiling.valueDim, tiling.stripElements);
    inputs_ = inputs.sequences;
    sequences_.Init(tiling, inputs_);
    mask_.Init(tiling);
    tasks_.Init(tiling, inputs_);
    faults_ = inputs.faults;
    which_ = inputs.which;
    const uint32_t floats = tiling.stripElements * static_cast<uint32_t>(sizeof(float));
    pipe->InitBuffer(in_, 2, floats);
    pipe->InitBuffer(out_, 2, tiling.stripElements * static_cast<uint32_t>(sizeof(T)));
    pipe->InitBuffer(exponent_, floats);
    addends_.Init(pipe, tiling, addends...);
  }

  __aicore__ inline void Process() {
    LookForFaults();
    ZeroUncovered();
    hstu::Tile before;
    hstu::Tile tile;
    hstu::Tile next;
    bool more = tasks_.Next(tile);
    if (more) {
      StartScores(tile, 0);
    }
    uint32_t number = 0;
    while (more) {
      const bool follows = tasks_.Next(next);
      FinishScores(tile);
      const int64_t half = OpenWeights(tile);
      MakeWeights(tile, number, 0, half);
      if (number > 0) {
        FinishValues(before);
      }
      if (follows) {
        StartScores(next, number + 1);
      }
      if (number > 0) {
        Close(before);
      }
      MakeWeights(tile, number, half, hstu::ShareOf(tile.ownRows).rows);
      StartValues(tile, number);
      before = tile;
      tile = next;
      more = follows;
      ++number;
    }
    if (number > 0) {
      FinishValues(before);
      Close(before);
    }
  }

 private:
  __aicore__ inline AscendC::GlobalTensor<float> Slot(uint32_t number) const {
    return workspace_[static_cast<uint64_t>(number % HSTU_SLOTS) * tiling_->slotElements];
  }
  // Sums of a task: those of the task before are rounded by the time that its first product is asked for.
  __aicore__ inline AscendC::GlobalTensor<float> Accumulator() const {
    return workspace_[HSTU_SLOTS * tiling_->slotElements];
  }
  __aicore__ inline static int64_t Pitch(const hstu::Tile& tile) {
    return hstu::RoundUp(tile.otherRows, HSTU_COLUMN_UNIT);
  }
  __aicore__ inline int64_t QueryRow(const hstu::Tile& tile) const {
    return tile.sequence.queryStart + tile.own - tile.sequence.Shift();
  }
  // First key of the tile in k, or in the cache; `part` 0 for keys, 1 for values.
  __aicore__ inline AscendC::GlobalTensor<T> Keys(const hstu::Tile& tile, const AscendC::GlobalTensor<T>& rows,
                                                  int64_t dim, int64_t part) const {
    if (tile.other >= tile.sequence.cached) {
      const int64_t row = tile.sequence.keyStart + tile.other - tile.sequence.cached;
      return rows[static_cast<uint64_t>((row * tiling_->heads + tile.head) * dim)];
    }
    const int64_t page = sequences_.Page(tile.sequence, tile.other);
    const int64_t row = (page * 2 + part) * tiling_->pageSize + tile.other % tiling_->pageSize;
    return cache_[static_cast<uint64_t>((row * tiling_->heads + tile.head) * dim)];
  }

  __aicore__ inline void StartScores(const hstu::Tile& tile, uint32_t number) {
    if (tile.otherRows == 0 || !hstu::Leads()) {
      return;
    }
    const int32_t m = static_cast<int32_t>(tile.ownRows);
    const int32_t n = static_cast<int32_t>(tile.otherRows);
    const int32_t width = static_cast<int32_t>(tiling_->heads * tiling_->dim);
    const uint64_t from = static_cast<uint64_t>((QueryRow(tile) * tiling_->heads + tile.head) * tiling_->dim);
    scores.SetOrgShape(m, n, width, width, static_cast<int32_t>(Pitch(tile)));
    scores.SetSingleShape(m, n, static_cast<int32_t>(tiling_->dim));
    scores.SetTensorA(q_[from]);
    scores.SetTensorB(Keys(tile, k_, tiling_->dim, 0), true);
    scores.template IterateAll<false>(Slot(number), 0, false, true);
  }
  __aicore__ inline void FinishScores(const hstu::Tile& tile) {
    if (tile.otherRows == 0) {
      return;
    }
    if (hstu::Leads()) {
      scores.WaitIterateAll();
      scores.End();
    }
    hstu::Meet(hstu::SCORES_MADE);
  }

  __aicore__ inline void StartValues(const hstu::Tile& tile, uint32_t number) {
    if (tile.otherRows == 0) {
      return;
    }
    // The cube reads what the stores have written.
    hstu::WaitFor<AscendC::HardEvent::MTE3_S>();
    hstu::Meet(hstu::TILE_STORED);
    if (!hstu::Leads()) {
      return;
    }
    const int32_t m = static_cast<int32_t>(tile.ownRows);
    const int32_t n = static_cast<int32_t>(tile.otherRows);
    const int32_t width = static_cast<int32_t>(output_.RowPitch());
    const int32_t pitch = static_cast<int32_t>(Pitch(tile));
    const uint8_t add = tile.first ? 0 : 1;
    if constexpr (hstu::Result<T>::inPlace) {
      values.SetOrgShape(m, width, pitch, n, width);
    } else {
      values.SetOrgShape(m, width, pitch, n, static_cast<int32_t>(output_.SumPitch()));
    }
    values.SetSingleShape(m, static_cast<int32_t>(tiling_->valueDim), n);
    values.SetTensorA(hstu::Rounded<T>(Slot(number), tile.ownRows, Pitch(tile)));
    values.SetTensorB(Keys(tile, v_, tiling_->valueDim, 1));
    if constexpr (hstu::Result<T>::inPlace) {
      values.template IterateAll<false>(output_.At(QueryRow(tile), tile.head), add, false, true);
    } else {
      values.template IterateAll<false>(Accumulator(), add, false, true);
    }
  }
  __aicore__ inline void FinishValues(const hstu::Tile& tile) {
    if (tile.otherRows == 0) {
      return;
    }
    if (hstu::Leads()) {
      values.WaitIterateAll();
      values.End();
    }
    if (tile.last) {
      hstu::Meet(hstu::SUMS_MADE);
    }
  }
  // After the last tile of a task.
  __aicore__ inline void Close(const hstu::Tile& tile) {
    const hstu::Share share = hstu::ShareOf(tile.ownRows);
    const int64_t row = QueryRow(tile) + share.begin;
    if (tile.otherRows == 0) {
      output_.Zero(row, tile.head, share.rows, out_);
    } else if (tile.last) {
      if constexpr (!hstu::Result<T>::inPlace) {
        const AscendC::GlobalTensor<float> sums =
            Accumulator()[static_cast<uint64_t>(share.begin * output_.SumPitch())];
        output_.Round(sums, row, tile.head, share.rows, in_, out_);
      }
    }
  }

  __aicore__ inline int64_t RowsAtOnce(const hstu::Tile& tile) const {
    return hstu::RowsOfStrip(hstu::ShareOf(tile.ownRows).rows, hstu::Least(tiling_->stripElements / Pitch(tile), 4095));
  }
  // Before the strips of a tile. Gives the rows of the first half of them.
  __aicore__ inline int64_t OpenWeights(const hstu::Tile& tile) {
    const hstu::Share share = hstu::ShareOf(tile.ownRows);
    if (tile.otherRows == 0 || share.rows == 0) {
      return 0;
    }
    sequences_.SetMask(tile.sequence, mask_);
    addends_.OpenTile(tile.sequence, mask_, tile.own + share.begin, share.rows, tile.other, tile.otherRows);
    return hstu::HalfOfStrips(share.rows, RowsAtOnce(tile));
  }
  // Scores of rows [begin, end) of this core's share of a tile become weights, strip by strip.
  __aicore__ inline void MakeWeights(const hstu::Tile& tile, uint32_t number, int64_t begin, int64_t end) {
    if (tile.otherRows == 0 || begin == end) {
      return;
    }
    const int64_t atOnce = RowsAtOnce(tile);
    for (int64_t from = begin; from < end; from += atOnce) {
      WeighStrip(tile, Slot(number), from, hstu::Least(atOnce, end - from), Pitch(tile));
    }
  }

  __aicore__ inline void WeighStrip(const hstu::Tile& tile, const AscendC::GlobalTensor<float>& slot, int64_t done,
                                    int64_t rows, int64_t pitch) {
    const int64_t from = hstu::ShareOf(tile.ownRows).Strip(done, rows);
    const int32_t count = static_cast<int32_t>(rows * pitch);
    const int64_t row = tile.own + from;
    AscendC::LocalTensor<float> x = in_.template AllocTensor<float>();
    AscendC::DataCopy(x, slot[static_cast<uint64_t>(from * pitch)], static_cast<uint32_t>(count));
    in_.EnQue(x);
    x = in_.template DeQue<float>();
    addends_.AddBias(x, tile.sequence.index, tile.head, row, rows, tile.other, tile.otherRows, pitch);

    // x / (1 + exp(-x)): an exponential that overflows gives 0.
    AscendC::LocalTensor<float> e = exponent_.template Get<float>();
    AscendC::Muls(e, x, -tiling_->alpha, count);
    hstu::Then();
    AscendC::Exp(e, e, count);
    hstu::Then();
    AscendC::Adds(e, e, 1.0f, count);
    AscendC::Muls(x, x, tiling_->alpha * tasks_.Scale(), count);
    hstu::Then();
    AscendC::LocalTensor<T> weights = out_.template AllocTensor<T>();
    AscendC::LocalTensor<float> result;
    if constexpr (sizeof(T) == sizeof(float)) {
      result = weights;
    } else {
      result = x;
    }
    AscendC::Div(result, x, e, count);
    hstu::Then();
    addends_.LoadMask(tile.sequence.index, tile.head, row, rows, tile.other, tile.otherRows, pitch);
    addends_.Multiply(result);
    addends_.Done();
    if (!tile.full) {
      hstu::CutRows(result, mask_, row, rows, tile.other, tile.otherRows, pitch);
      hstu::Then();
    }
    if constexpr (sizeof(T) != sizeof(float)) {
      AscendC::Cast(weights, x, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
    }
    in_.FreeTensor(x);
    out_.EnQue(weights);
    weights = out_.template DeQue<T>();
    const AscendC::GlobalTensor<T> target = hstu::Rounded<T>(slot, tile.ownRows, pitch);
    AscendC::DataCopy(target[static_cast<uint64_t>(from * pitch)], weights, static_cast<uint32_t>(count));
    out_.FreeTensor(weights);
  }

  __aicore__ inline void LookForFaults() const {
    if (faults_ == nullptr) {
      return;
    }
    hstu::SequenceFaults look;
    look.Init(*tiling_, inputs_, faults_, which_);
    look.Look();
  }

  // Rows of the result that belong to no sequence. The first core writes them: with sound offsets there are none.
  __aicore__ inline void ZeroUncovered() {
    if (AscendC::GetBlockIdx() != 0) {
      return;
    }
    hstu::Sequence sequence;
    sequences_.Rewind(sequence);
    output_.ZeroRows(0, sequence.queryStart, out_);
    int64_t end = sequence.queryStart;
    while (sequences_.Next(sequence)) {
      end = sequences_.QueryEnd();
      output_.ZeroRows(sequence.queryStart + sequence.queries, end, out_);
    }
    output_.ZeroRows(end, tiling_->queryRows, out_);
  }

  const HstuTilingData* tiling_;
  AscendC::GlobalTensor<T> q_;
  AscendC::GlobalTensor<T> k_;
  AscendC::GlobalTensor<T> v_;
  AscendC::GlobalTensor<T> cache_;
  AscendC::GlobalTensor<float> workspace_;
  hstu::Result<T> output_;
  hstu::SequenceInputs inputs_;
  GM_ADDR faults_;
  fault::Operator which_;
  hstu::Sequences sequences_;
  hstu::Mask mask_;
  hstu::Tasks<false> tasks_;
  Addends addends_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> exponent_;
};
