// The pass over the scores. A task owns a block of queries, sums dQ over the keys that they see, adds to the sums of dV
// and dK of these keys (key_sums.h), and writes the gradient of a bias of its own on the way. Nothing is added by two
// cores, so results do not depend on their number.
#pragma once
#include "gradient_products.h"
#include "key_sums.h"

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
    result_.Init(outputs.q, tiling.queryRows, tiling.heads, tiling.dim, tiling.stripElements);
    keySums_.Init(tiling, inputs.sequences, outputs.v, outputs.k, workspace, strips);
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
      if (tile.otherRows != 0) {
        products_->FinishScores();
      }
      if (follows) {
        StartScores(next, number + 1);
      }
      Differentiate(tile, number);
      if (number > 0) {
        FinishSums(before);
      }
      if (tile.opens) {
        keySums_.Open(tile);
      }
      StartSums(tile, number);
      if (number > 0) {
        Close(before);
      }
      before = tile;
      tile = next;
      more = follows;
      ++number;
    }
    if (number > 0) {
      FinishSums(before);
      Close(before);
    }
    keySums_.Close();
  }

 private:
  __aicore__ inline void StartScores(const Tile& tile, uint32_t number) {
    if (tile.otherRows != 0) {
      const Grid grid = GridOf(tile);
      products_->StartScores(grid, QueryRow(tile.sequence, grid.row), KeyRow(tile.sequence, grid.column), number);
    }
  }

  __aicore__ inline void Differentiate(const Tile& tile, uint32_t number) {
    if (tile.otherRows == 0) {
      return;
    }
    sequences_.SetMask(tile.sequence, mask_);
    const Grid grid = GridOf(tile);
    strips_->OpenTile(grid, tile.sequence, mask_);
    const int64_t atOnce = strips_->RowsAtOnce(grid);
    for (int64_t from = 0; from < grid.rows; from += atOnce) {
      const Grid strip = grid.Rows(from, Least(atOnce, grid.rows - from));
      const uint64_t at = static_cast<uint64_t>(from * grid.pitch);
      strips_->Differentiate(strip, mask_, products_->ScoreTile(number)[at], products_->ProductTile(number)[at]);
      const AscendC::GlobalTensor<T> target = products_->ScoreGradients(number)[at];
      strips_->StoreWeights(strip, products_->Weights(number)[at]);
      if (storesBias_) {
        strips_->StoreGradients(strip, target, BiasAt(strip), tiling_->bias.size);
      } else {
        strips_->StoreGradients(strip, target);
        strips_->SumGradients(strip);
      }
      strips_->Finish();
    }
    // The cube reads what the stores have written.
    WaitFor<AscendC::HardEvent::MTE3_S>();
  }
  __aicore__ inline AscendC::GlobalTensor<T> BiasAt(const Grid& strip) const {
    const int64_t matrix = strip.batch * tiling_->heads + strip.head;
    return bias_[static_cast<uint64_t>((matrix * tiling_->bias.size + strip.row) * tiling_->bias.size + strip.column)];
  }

  __aicore__ inline void StartSums(const Tile& tile, uint32_t number) {
    if (tile.otherRows == 0) {
      return;
    }
    const Grid grid = GridOf(tile);
    const int64_t queryRow = QueryRow(tile.sequence, grid.row);
    products_->StartColumnSums(grid, products_->Weights(number), products_->grad, queryRow,
                               keySums_.OfValues(tile, grid.column), keySums_.ValuePitch());
    products_->StartColumnSums(grid, products_->ScoreGradients(number), products_->q, queryRow,
                               keySums_.OfKeys(tile, grid.column), keySums_.KeyPitch());
    products_->StartRowSums(grid, products_->ScoreGradients(number), products_->k, KeyRow(tile.sequence, grid.column),
                            SumsOf(tile, queryRow), SumPitch(), tile.first);
  }
  __aicore__ inline void FinishSums(const Tile& tile) {
    if (tile.otherRows == 0) {
      return;
    }
    products_->columnSums.WaitIterateAll();
    products_->columnSums.WaitIterateAll();
    products_->columnSums.End();
    products_->rowSums.WaitIterateAll();
    products_->rowSums.End();
  }

  // After the last tile of a task its sums are rounded to the result.
  __aicore__ inline void Close(const Tile& tile) {
    const int64_t row = QueryRow(tile.sequence, tile.own);
    if (tile.otherRows == 0) {
      result_.Zero(row, tile.head, tile.ownRows, strips_->Out());
    } else if (tile.last) {
      if constexpr (!Result<T>::inPlace) {
        result_.Round(products_->Accumulator(tile.task), row, tile.head, tile.ownRows, strips_->In(), strips_->Out());
      }
    }
  }

  // Where the cube adds up: the result itself where it is fp32.
  __aicore__ inline AscendC::GlobalTensor<float> SumsOf(const Tile& tile, int64_t row) const {
    if constexpr (Result<T>::inPlace) {
      return result_.At(row, tile.head);
    } else {
      return products_->Accumulator(tile.task);
    }
  }
  __aicore__ inline int64_t SumPitch() const { return Result<T>::inPlace ? result_.RowPitch() : result_.SumPitch(); }

  // Rows of dQ that belong to no sequence. The first core writes them: with sound offsets there are none.
  __aicore__ inline void ZeroUncovered() {
    if (AscendC::GetBlockIdx() != 0) {
      return;
    }
    Sequence sequence;
    sequences_.Rewind(sequence);
    int64_t end = sequence.queryStart;
    result_.ZeroRows(0, end, strips_->Out());
    while (sequences_.Next(sequence)) {
      end = sequences_.QueryEnd();
      result_.ZeroRows(sequence.queryStart + sequence.queries, end, strips_->Out());
    }
    result_.ZeroRows(end, tiling_->queryRows, strips_->Out());
  }

  const HstuTilingData* tiling_;
  Products* products_;
  Strips* strips_;
  Sequences sequences_;
  Mask mask_;
  Tasks tasks_;
  Result<T> result_;
  KeySums<T, Strips> keySums_;
  AscendC::GlobalTensor<T> bias_;
  bool storesBias_;
};

}  // namespace hstu
