// One pass over the scores. keysOwn: tasks own a block of keys and sum dV and dK over their queries. Otherwise they own
// a block of queries and sum dQ over their keys, and write the bias gradient on the way. Each result has one owner and
// one order of summation, so there are no atomics between cores and results do not depend on the number of cores.
#pragma once
#include "gradient_products.h"

namespace hstu {

struct BackwardOutputs {
  GM_ADDR q;
  GM_ADDR k;
  GM_ADDR v;
  GM_ADDR bias;
};

template <typename T, const MatmulConfig& CONFIG, bool keysOwn, typename Strips = GradientStrips<T>>
class GradientPass {
 public:
  using Products = GradientProducts<T, CONFIG>;

  __aicore__ inline void Init(const HstuTilingData& tiling, const BackwardInputs& inputs,
                              const BackwardOutputs& outputs, Products& products, Strips& strips) {
    tiling_ = &tiling;
    products_ = &products;
    strips_ = &strips;
    sequences_.Init(tiling, inputs.sequences);
    mask_.Init(tiling);
    tasks_.Init(tiling, inputs.sequences);
    strips.SetScale(tasks_.Scale());
    if constexpr (keysOwn) {
      first_.Init(outputs.v, tiling.keyRows, tiling.heads, tiling.valueDim, tiling.stripElements);
      second_.Init(outputs.k, tiling.keyRows, tiling.heads, tiling.dim, tiling.stripElements);
    } else {
      first_.Init(outputs.q, tiling.queryRows, tiling.heads, tiling.dim, tiling.stripElements);
      bias_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(outputs.bias),
                            static_cast<uint64_t>(tiling.batch * tiling.heads * tiling.bias.size * tiling.bias.size));
      storesBias_ = outputs.bias != nullptr && tiling.sumsBias == 0;
    }
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
    // The next pass uses the workspace anew.
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  __aicore__ inline void StartScores(const Tile& tile, uint32_t number) {
    if (tile.otherRows != 0) {
      const Grid grid = GridOf<keysOwn>(tile);
      products_->StartScores(grid, QueryRow(tile.sequence, grid.row), KeyRow(tile.sequence, grid.column), number);
    }
  }

  __aicore__ inline void Differentiate(const Tile& tile, uint32_t number) {
    if (tile.otherRows == 0) {
      return;
    }
    sequences_.SetMask(tile.sequence, mask_);
    const Grid grid = GridOf<keysOwn>(tile);
    strips_->OpenTile(grid, tile.sequence, mask_);
    const int64_t atOnce = strips_->RowsAtOnce(grid);
    for (int64_t from = 0; from < grid.rows; from += atOnce) {
      const Grid strip = grid.Rows(from, Least(atOnce, grid.rows - from));
      const uint64_t at = static_cast<uint64_t>(from * grid.pitch);
      strips_->Differentiate(strip, mask_, products_->ScoreTile(number)[at], products_->ProductTile(number)[at]);
      const AscendC::GlobalTensor<T> target = products_->ScoreGradients(number)[at];
      if constexpr (keysOwn) {
        strips_->StoreWeights(strip, products_->Weights(number)[at]);
        strips_->StoreGradients(strip, target);
      } else if (storesBias_) {
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
    const Grid grid = GridOf<keysOwn>(tile);
    const int64_t queryRow = QueryRow(tile.sequence, grid.row);
    const int64_t keyRow = KeyRow(tile.sequence, grid.column);
    if constexpr (keysOwn) {
      products_->StartColumnSums(grid, products_->Weights(number), products_->grad, queryRow,
                                 SumsOf(first_, keyRow, tile, FirstSums(tile)), SumPitch(first_), tile.first);
      products_->StartColumnSums(grid, products_->ScoreGradients(number), products_->q, queryRow,
                                 SumsOf(second_, keyRow, tile, SecondSums(tile)), SumPitch(second_), tile.first);
    } else {
      products_->StartRowSums(grid, products_->ScoreGradients(number), products_->k, keyRow,
                              SumsOf(first_, queryRow, tile, FirstSums(tile)), SumPitch(first_), tile.first);
    }
  }
  __aicore__ inline void FinishSums(const Tile& tile) {
    if (tile.otherRows == 0) {
      return;
    }
    if constexpr (keysOwn) {
      products_->columnSums.WaitIterateAll();
      products_->columnSums.WaitIterateAll();
      products_->columnSums.End();
    } else {
      products_->rowSums.WaitIterateAll();
      products_->rowSums.End();
    }
  }

  // After the last tile of a task its sums are rounded to the results.
  __aicore__ inline void Close(const Tile& tile) {
    const int64_t row = keysOwn ? KeyRow(tile.sequence, tile.own) : QueryRow(tile.sequence, tile.own);
    if (tile.otherRows == 0) {
      first_.Zero(row, tile.head, tile.ownRows, strips_->Out());
      if constexpr (keysOwn) {
        second_.Zero(row, tile.head, tile.ownRows, strips_->Out());
      }
    } else if (tile.last) {
      if constexpr (!Result<T>::inPlace) {
        first_.Round(FirstSums(tile), row, tile.head, tile.ownRows, strips_->In(), strips_->Out());
        if constexpr (keysOwn) {
          second_.Round(SecondSums(tile), row, tile.head, tile.ownRows, strips_->In(), strips_->Out());
        }
      }
    }
  }

  __aicore__ inline AscendC::GlobalTensor<float> FirstSums(const Tile& tile) const {
    return products_->Accumulator(tile.task);
  }
  __aicore__ inline AscendC::GlobalTensor<float> SecondSums(const Tile& tile) const {
    return FirstSums(tile)[static_cast<uint64_t>(tiling_->blockRows * first_.SumPitch())];
  }
  // Where the cube adds up: the result itself where it is fp32.
  __aicore__ inline static AscendC::GlobalTensor<float> SumsOf(const Result<T>& result, int64_t row, const Tile& tile,
                                                               const AscendC::GlobalTensor<float>& workspace) {
    if constexpr (Result<T>::inPlace) {
      return result.At(row, tile.head);
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
    int64_t end = keysOwn ? sequence.keyStart : sequence.queryStart;
    ZeroRows(0, end);
    while (sequences_.Next(sequence)) {
      end = keysOwn ? sequences_.KeyEnd() : sequences_.QueryEnd();
      ZeroRows(keysOwn ? sequence.keyStart + sequence.keys : sequence.queryStart + sequence.queries, end);
    }
    ZeroRows(end, keysOwn ? tiling_->keyRows : tiling_->queryRows);
  }
  __aicore__ inline void ZeroRows(int64_t from, int64_t to) {
    first_.ZeroRows(from, to, strips_->Out());
    if constexpr (keysOwn) {
      second_.ZeroRows(from, to, strips_->Out());
    }
  }

  const HstuTilingData* tiling_;
  Products* products_;
  Strips* strips_;
  Sequences sequences_;
  Mask mask_;
  Tasks<keysOwn> tasks_;
  Result<T> first_;   // dV, or dQ
  Result<T> second_;  // dK
  AscendC::GlobalTensor<T> bias_;
  bool storesBias_;
};

}  // namespace hstu
