// The pass over the scores. A task owns a block of keys, sums dV and dK over the queries that see them, adds to the
// sums of dQ of these queries (query_sums.h), and writes the gradient of a bias of its own on the way. No two cores add
// to one number, so results do not depend on how many there are.
#pragma once
#include "gradient_products.h"
#include "query_sums.h"

namespace hstu {

struct BackwardOutputs {
  GM_ADDR q;
  GM_ADDR k;
  GM_ADDR v;
  GM_ADDR bias;
};

template <typename T, const MatmulConfig& CONFIG, typename Strips = GradientStrips<T>>
class GradientPass {
 public:
  using Products = GradientProducts<T, CONFIG>;

  __aicore__ inline void Init(const HstuTilingData& tiling, const BackwardInputs& inputs,
                              const BackwardOutputs& outputs, GM_ADDR workspace, Products& products, Strips& strips) {
    tiling_ = &tiling;
    products_ = &products;
    strips_ = &strips;
    sequences_.Init(tiling, inputs.sequences);
    mask_.Init(tiling);
    tasks_.Init(tiling, inputs.sequences);
    strips.SetScale(tasks_.Scale());
    values_.Init(outputs.v, tiling.keyRows, tiling.heads, tiling.valueDim, tiling.stripElements);
    keys_.Init(outputs.k, tiling.keyRows, tiling.heads, tiling.dim, tiling.stripElements);
    querySums_.Init(tiling, inputs.sequences, outputs.q, workspace, strips);
    bias_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(outputs.bias),
                          static_cast<uint64_t>(tiling.batch * tiling.heads * tiling.bias.size * tiling.bias.size));
    storesBias_ = outputs.bias != nullptr && tiling.sumsBias == 0;
  }

  __aicore__ inline void Process() {
    ZeroUncovered();
    Tile before;
    Tile tile;
    Tile next;
    bool more = tasks_.Next(tile);
    if (more) {
      StartScores(tile, 0);
    }
    uint32_t number = 0;
    while (more) {
      const bool follows = tasks_.Next(next);
      FinishScores(tile);
      const int64_t half = OpenTile(tile);
      Differentiate(tile, number, 0, half);
      if (number > 0) {
        FinishSums(before);
      }
      if (follows) {
        StartScores(next, number + 1);  // in the slot of the tile before
      }
      if (number > 0) {
        Close(before);
      }
      Differentiate(tile, number, half, ShareOf(tile.otherRows).rows);
      // The cube reads what the stores have written.
      WaitFor<AscendC::HardEvent::MTE3_S>();
      if (tile.opens) {
        querySums_.Open(tile);
      }
      StartSums(tile, number);
      before = tile;
      tile = next;
      more = follows;
      ++number;
    }
    if (number > 0) {
      FinishSums(before);
      Close(before);
    }
    querySums_.Close();
  }

 private:
  __aicore__ inline void StartScores(const Tile& tile, uint32_t number) {
    if (tile.otherRows != 0 && Leads()) {
      const Grid grid = GridOf(tile);
      products_->StartScores(grid, QueryRow(tile.sequence, grid.row), KeyRow(tile.sequence, grid.column), number);
    }
  }

  __aicore__ inline void FinishScores(const Tile& tile) {
    if (tile.otherRows == 0) {
      return;
    }
    if (Leads()) {
      products_->FinishScores();
    }
    Meet(SCORES_MADE);
  }

  // Before the strips of a tile. Gives the rows of the first half of them.
  __aicore__ inline int64_t OpenTile(const Tile& tile) {
    const Share share = ShareOf(tile.otherRows);
    if (share.rows == 0) {
      return 0;
    }
    sequences_.SetMask(tile.sequence, mask_);
    const Grid grid = GridOf(tile);
    strips_->OpenTile(grid.Rows(share.begin, share.rows), tile.sequence, mask_);
    return HalfOfStrips(share.rows, RowsAtOnce(grid));
  }
  __aicore__ inline int64_t RowsAtOnce(const Grid& grid) const {
    return RowsOfStrip(ShareOf(grid.rows).rows, strips_->RowsAtOnce(grid));
  }

  // Rows [begin, end) of this core's share of a tile.
  __aicore__ inline void Differentiate(const Tile& tile, uint32_t number, int64_t begin, int64_t end) {
    if (begin == end) {
      return;
    }
    const Grid grid = GridOf(tile);
    const int64_t atOnce = RowsAtOnce(grid);
    const Share share = ShareOf(grid.rows);
    for (int64_t done = begin; done < end; done += atOnce) {
      const int64_t rows = Least(atOnce, end - done);
      const int64_t from = share.Strip(done, rows);
      const Grid strip = grid.Rows(from, rows);
      const uint64_t at = static_cast<uint64_t>(from * grid.pitch);
      strips_->Differentiate(strip, mask_, products_->ScoreTile(number)[at], products_->ProductTile(number)[at]);
      const AscendC::GlobalTensor<T> target = products_->ScoreGradients(grid, number)[at];
      strips_->StoreWeights(strip, products_->Weights(grid, number)[at]);
      if (storesBias_) {
        strips_->StoreGradients(strip, target, BiasAt(strip), tiling_->bias.size);
      } else {
        strips_->StoreGradients(strip, target);
        strips_->SumGradients(strip);
      }
      strips_->Finish();
    }
  }
  __aicore__ inline AscendC::GlobalTensor<T> BiasAt(const Grid& strip) const {
    const int64_t matrix = strip.batch * tiling_->heads + strip.head;
    return bias_[static_cast<uint64_t>((matrix * tiling_->bias.size + strip.row) * tiling_->bias.size + strip.column)];
  }

  __aicore__ inline void StartSums(const Tile& tile, uint32_t number) {
    if (tile.otherRows == 0) {
      return;
    }
    Meet(TILE_STORED);
    if (!Leads()) {
      return;
    }
    const Grid grid = GridOf(tile);
    const int64_t queryRow = QueryRow(tile.sequence, grid.row);
    const int64_t keyRow = KeyRow(tile.sequence, grid.column);
    products_->StartColumnSums(grid, products_->Weights(grid, number), products_->grad, queryRow,
                               SumsOf(values_, keyRow, tile.head, ValueSums()), SumPitch(values_), tile.first);
    products_->StartColumnSums(grid, products_->ScoreGradients(grid, number), products_->q, queryRow,
                               SumsOf(keys_, keyRow, tile.head, KeySums()), SumPitch(keys_), tile.first);
    products_->StartRowSums(grid, products_->ScoreGradients(grid, number), products_->k, keyRow,
                            querySums_.Of(tile, grid.row), querySums_.Pitch());
  }
  __aicore__ inline void FinishSums(const Tile& tile) {
    if (tile.otherRows == 0) {
      return;
    }
    if (Leads()) {
      products_->columnSums.WaitIterateAll();
      products_->columnSums.WaitIterateAll();
      products_->columnSums.End();
      products_->rowSums.WaitIterateAll();
      products_->rowSums.End();
    }
    if (tile.last) {
      Meet(SUMS_MADE);
    }
  }

  // After the last tile of a task its sums are rounded to the results.
  __aicore__ inline void Close(const Tile& tile) {
    const Share share = ShareOf(tile.ownRows);
    const int64_t row = KeyRow(tile.sequence, tile.own) + share.begin;
    if (tile.otherRows == 0) {
      values_.Zero(row, tile.head, share.rows, strips_->Out());
      keys_.Zero(row, tile.head, share.rows, strips_->Out());
    } else if (tile.last) {
      if constexpr (!Result<T>::inPlace) {
        RoundShare(values_, ValueSums(), row, tile.head, share);
        RoundShare(keys_, KeySums(), row, tile.head, share);
      }
    }
  }

  __aicore__ inline void RoundShare(Result<T>& result, const AscendC::GlobalTensor<float>& sums, int64_t row,
                                    int64_t head, const Share& share) {
    result.Round(sums[static_cast<uint64_t>(share.begin * result.SumPitch())], row, head, share.rows, strips_->In(),
                 strips_->Out());
  }

  __aicore__ inline AscendC::GlobalTensor<float> ValueSums() const { return products_->Accumulator(); }
  __aicore__ inline AscendC::GlobalTensor<float> KeySums() const {
    return ValueSums()[static_cast<uint64_t>(tiling_->blockRows * values_.SumPitch())];
  }
  // Where the cube adds up: the result itself where it is fp32.
  __aicore__ inline static AscendC::GlobalTensor<float> SumsOf(const Result<T>& result, int64_t row, int64_t head,
                                                               const AscendC::GlobalTensor<float>& workspace) {
    if constexpr (Result<T>::inPlace) {
      return result.At(row, head);
    } else {
      return workspace;
    }
  }
  __aicore__ inline static int64_t SumPitch(const Result<T>& result) {
    return Result<T>::inPlace ? result.RowPitch() : result.SumPitch();
  }

  // Rows of the results that belong to no sequence. The first core writes them: with sound offsets there are none.
  __aicore__ inline void ZeroUncovered() {
    if (AscendC::GetBlockIdx() != 0) {
      return;
    }
    Sequence sequence;
    sequences_.Rewind(sequence);
    int64_t end = sequence.keyStart;
    ZeroRows(0, end);
    while (sequences_.Next(sequence)) {
      end = sequences_.KeyEnd();
      ZeroRows(sequence.keyStart + sequence.keys, end);
    }
    ZeroRows(end, tiling_->keyRows);
  }
  __aicore__ inline void ZeroRows(int64_t from, int64_t to) {
    values_.ZeroRows(from, to, strips_->Out());
    keys_.ZeroRows(from, to, strips_->Out());
  }

  const HstuTilingData* tiling_;
  Products* products_;
  Strips* strips_;
  Sequences sequences_;
  Mask mask_;
  Tasks<true> tasks_;
  Result<T> values_;
  Result<T> keys_;
  QuerySums<T, Strips> querySums_;
  AscendC::GlobalTensor<T> bias_;
  bool storesBias_;
};

}  // namespace hstu
