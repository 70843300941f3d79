// Third step: the sum of each row's contributions, in the order of the indices, and one optimizer step per row.
// A row whose contributions lie in one block of 128 is finished at once. Of the others each block leaves its sum in
// the workspace, and after all cores have met, the core of the first block adds them in order.
#pragma once
#include "row_rounding.h"
#include "row_sums.h"
#include "row_traffic.h"
#include "sample_weights.h"
#include "sorted_window.h"

enum PartialSum : int64_t { FROM_BEFORE = 0, GOES_ON = 1, PARTIALS = 2 };

// Walks over the columns. One is enough but for row-wise Adagrad of rows wider than a tile: before the walk that
// updates, others make the sums over the whole row that it needs, each from the gradients anew.
enum Phase : uint32_t { WHOLE_STEP, MEASURE_GRADIENTS, MEASURE_ROWS, FINISH, NO_PHASE };

template <typename T>
class RowUpdates {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const BackwardArguments& in, GM_ADDR partials, int64_t noRow,
                              const AscendC::GlobalTensor<uint32_t>& sorted,
                              const BackwardCodegenAdagradUnweightedExactTilingData& tiling) {
    tiling_ = tiling;
    pitch_ = tiling.tileColumns;
    noRow_ = noRow;
    tables_.Init(in, tiling);
    traffic_.Init(pipe, in, tiling);
    optimizer_.Init(pipe, tiling);
    rounding_.Init(pipe, tiling);
    window_.Init(pipe, sorted, tiling.indexCount);
    const int64_t blocks = (tiling.indexCount + BLOCK - 1) / BLOCK;
    partials_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(partials),
                              static_cast<uint64_t>(blocks * PARTIALS * tiling.partialPitch));
    if (tiling.phased != 0) {
      GM_ADDR sums = partials + blocks * PARTIALS * tiling.partialPitch * static_cast<int64_t>(sizeof(float));
      const int64_t bytes = embedding::CeilTo(tiling.indexCount * static_cast<int64_t>(sizeof(float)), 512);
      squares_.Init(pipe, sums, tiling.indexCount, tiling.groupRows);
      norms_.Init(pipe, sums + bytes, tiling.indexCount, tiling.groupRows);
    }
    const uint32_t groupBytes = tiling.groupRows * pitch_ * static_cast<uint32_t>(sizeof(float));
    pipe->InitBuffer(sums_, groupBytes);
    pipe->InitBuffer(running_, pitch_ * sizeof(float));
    if (tiling.gradType != embedding::ELEMENT_FLOAT) {
      pipe->InitBuffer(wideGradients_, groupBytes);
    }
    if (!std::is_same<T, float>::value) {
      pipe->InitBuffer(wideWeights_, groupBytes);
      pipe->InitBuffer(wideResults_, groupBytes);
    }
    sampleWeights_.Init(pipe, in, tiling);
  }

  // Sorted positions [first, end), first on a block border.
  __aicore__ inline void SumBlocks(int64_t first, int64_t end) {
    for (FirstPhase(); phase_ != NO_PHASE; NextPhase()) {
      for (column_ = 0; column_ < tiling_.maxWidth; column_ += pitch_) {
        for (int64_t at = first; at < end; at += WINDOW) {
          window_.Open(at);
          if (window_.Key(at) >= noRow_) {
            break;
          }
          SumWindow(at, embedding::Smaller(end, at + WINDOW));
        }
      }
    }
  }

  // After all cores have met: the rows that start in [first, end) and go on in another block.
  __aicore__ inline void JoinBlocks(int64_t first, int64_t end) {
    for (FirstPhase(); phase_ != NO_PHASE; NextPhase()) {
      for (column_ = 0; column_ < tiling_.maxWidth; column_ += pitch_) {
        for (int64_t at = first; at < end; at += WINDOW) {
          window_.Open(at);
          if (window_.Key(at) >= noRow_) {
            break;
          }
          JoinWindow(at, embedding::Smaller(end, at + WINDOW));
        }
      }
    }
  }

 private:
  using Tensor = AscendC::LocalTensor<float>;

  struct Group {
    int64_t first;
    uint32_t count;
  };

  __aicore__ inline void FirstPhase() { phase_ = tiling_.phased != 0 ? MEASURE_GRADIENTS : WHOLE_STEP; }
  __aicore__ inline void NextPhase() {
    if (phase_ == MEASURE_GRADIENTS && tiling_.maxNorm > 0.0f) {
      phase_ = MEASURE_ROWS;
    } else if (phase_ == MEASURE_GRADIENTS || phase_ == MEASURE_ROWS) {
      phase_ = FINISH;
    } else {
      phase_ = NO_PHASE;
    }
    AscendC::PipeBarrier<PIPE_ALL>();  // the next phase reads what this one has stored
  }
  __aicore__ inline bool IsFirstPhase() const { return phase_ == WHOLE_STEP || phase_ == MEASURE_GRADIENTS; }
  __aicore__ inline bool IsLastPhase() const { return phase_ == WHOLE_STEP || phase_ == FINISH; }

  __aicore__ inline int64_t Columns(int64_t width) const {
    return embedding::Larger(0, embedding::Smaller(width - column_, pitch_));
  }

  // Groups of the window: one is loaded while the one before is summed.
  __aicore__ inline void SumWindow(int64_t first, int64_t end) {
    Group next = LoadGroup(first, end);
    while (next.count > 0) {
      const Group group = next;
      next = LoadGroup(group.first + group.count, end);
      SumGroup(group);
    }
  }

  __aicore__ inline bool IsWhole(const Contribution& contribution) const {
    return contribution.last && !contribution.fromBefore && !contribution.goesOn;
  }

  __aicore__ inline Group LoadGroup(int64_t first, int64_t end) {
    Group group;
    group.first = first;
    group.count = 0;
    if (first >= end || window_.Key(first) >= noRow_) {
      return group;
    }
    // A group does not reach over a block's border: group sizes divide a block.
    const int64_t stop = embedding::Smaller(end, first / tiling_.groupRows * tiling_.groupRows + tiling_.groupRows);
    const LoadedRows<T> rows = traffic_.Begin();
    for (int64_t i = first; i < stop; ++i) {
      const Contribution contribution = window_.At(i);
      if (contribution.key >= noRow_) {
        break;
      }
      const uint32_t slot = group.count++;
      if (!tables_.Select(contribution.key)) {
        continue;
      }
      const int64_t columns = Columns(tables_.Width());
      if (columns == 0) {
        continue;
      }
      traffic_.LoadGradient(rows, slot, tables_.GradientOf(contribution.source) + column_, columns);
      if (IsWhole(contribution)) {
        traffic_.LoadState(rows, slot, tables_, column_, columns);
      }
      if (IsWhole(contribution) || tiling_.weightsGradient != 0) {
        traffic_.LoadWeights(rows, slot, tables_, column_, columns);
      }
    }
    traffic_.End(rows);
    return group;
  }

  __aicore__ inline void SumGroup(const Group& group) {
    LoadedRows<T> rows = traffic_.Take();
    const Tensor weights = Widened(rows.weights, group.count);
    const Tensor gradients = Clipped(traffic_.Gradients(rows, wideGradients_.Get<float>(), group.count), group.count);
    if (tiling_.weightsGradient != 0 && IsFirstPhase()) {
      embedding::Fence<AscendC::HardEvent::S_V>();  // the dots of the group before have been read
      AscendC::Mul(optimizer_.Work(), gradients, weights, static_cast<int32_t>(group.count * pitch_));
      sampleWeights_.StoreDots(optimizer_.Work(), group.first, group.count, column_, window_, tables_);
    }
    LoadedRows<T> results = traffic_.BeginStore();
    uint32_t partials = 0;
    uint64_t whole = 0;
    uint32_t columnsOf[MAX_GROUP];
    uint32_t widthOf[MAX_GROUP];
    int64_t startOf[MAX_GROUP];
    for (uint32_t j = 0; j < group.count; ++j) {
      const Contribution contribution = window_.At(group.first + j);
      columnsOf[j] = tables_.Select(contribution.key) ? static_cast<uint32_t>(Columns(tables_.Width())) : 0;
      widthOf[j] = static_cast<uint32_t>(tables_.Width());
      startOf[j] = tables_.Weights();
      if (columnsOf[j] == 0) {
        continue;
      }
      Tensor target = running_.Get<float>();
      if (IsWhole(contribution)) {
        whole |= 1ULL << j;
        target = sums_.Get<float>()[j * pitch_];
      } else if (contribution.last) {
        target = traffic_.PartialSlot(results, partials++);
      }
      AddContribution(target, gradients[j * pitch_], contribution, static_cast<int32_t>(columnsOf[j]));
    }
    if (whole != 0) {
      Update(rows, results, weights, {group.first, group.count, whole, columnsOf, widthOf, startOf});
    }
    traffic_.Release(rows);
    results = traffic_.FinishStore(results);
    StoreGroup(group, results, columnsOf);
    traffic_.EndStore(results);
  }

  __aicore__ inline Tensor Clipped(const Tensor& gradients, uint32_t count) {
    const int32_t lanes = static_cast<int32_t>(count * pitch_);
    if (tiling_.maxGradient >= 0.0f) {
      AscendC::Mins<float>(gradients, gradients, tiling_.maxGradient, lanes);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Maxs<float>(gradients, gradients, -tiling_.maxGradient, lanes);
      AscendC::PipeBarrier<PIPE_V>();
    }
    return gradients;
  }

  __aicore__ inline Tensor Widened(const AscendC::LocalTensor<T>& rows, uint32_t count) {
    if constexpr (std::is_same<T, float>::value) {
      return rows;
    } else {
      const Tensor wide = wideWeights_.Get<float>();
      AscendC::Cast(wide, rows, AscendC::RoundMode::CAST_NONE, count * pitch_);
      AscendC::PipeBarrier<PIPE_V>();
      return wide;
    }
  }

  // target = the running sum + scale * gradient; without the running sum for the first of a block or segment.
  __aicore__ inline void AddContribution(const Tensor& target, const Tensor& gradient, const Contribution& contribution,
                                         int32_t columns) {
    const float scale = sampleWeights_.ScaleOf(contribution);
    if (contribution.first) {
      AscendC::Muls<float>(target, gradient, scale, columns);
    } else {
      if (scale != 1.0f) {
        AscendC::Muls<float>(gradient, gradient, scale, columns);
        AscendC::PipeBarrier<PIPE_V>();
      }
      AscendC::Add(target, running_.Get<float>(), gradient, columns);
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Rows that are updated: bit j of `wanted` stands for the row whose last contribution is at `place` + j.
  struct Updated {
    int64_t place;
    uint32_t count;
    uint64_t wanted;
    const uint32_t* columns;  // of this tile
    const uint32_t* widths;
    const int64_t* starts;  // in the weights
  };

  __aicore__ inline void Update(const LoadedRows<T>& rows, const LoadedRows<T>& results, const Tensor& weights,
                                const Updated& updated) {
    OptimizerRows step;
    step.weights = weights;
    step.momentum1 = rows.momentum1;
    step.momentum2 = rows.momentum2;
    step.gradients = sums_.Get<float>();
    step.newMomentum1 = results.momentum1;
    step.newMomentum2 = results.momentum2;
    step.count = updated.count;
    step.wanted = updated.wanted;
    if constexpr (std::is_same<T, float>::value) {
      step.newWeights = results.weights;
      RunPhase(step, updated);
    } else {
      step.newWeights = wideResults_.Get<float>();
      RunPhase(step, updated);
      if (rounding_.Wanted() && IsLastPhase()) {
        rounding_.SelectColumns(column_);
        rounding_.Round(results.weights, step.newWeights, optimizer_.Work(), step.gradients, updated.count,
                        updated.wanted, updated.starts, updated.columns);
      } else {
        AscendC::Cast(results.weights, step.newWeights, AscendC::RoundMode::CAST_RINT, updated.count * pitch_);
        AscendC::PipeBarrier<PIPE_V>();
      }
    }
  }

  __aicore__ inline void RunPhase(const OptimizerRows& step, const Updated& updated) {
    if (phase_ == WHOLE_STEP) {
      optimizer_.Step(step, updated.columns);
      return;
    }
    if (phase_ == MEASURE_GRADIENTS) {
      optimizer_.MeasureGradients(step, updated.columns);
      squares_.Add(optimizer_.Scalars(), updated.place, updated.count, updated.wanted, column_ == 0);
      return;
    }
    const Tensor squares = squares_.Load(updated.place, updated.count, updated.wanted);
    optimizer_.MoveRows(step, updated.columns, squares, updated.widths);
    if (phase_ == MEASURE_ROWS) {
      optimizer_.MeasureRows(step, updated.columns);
      norms_.Add(optimizer_.Scalars(), updated.place, updated.count, updated.wanted, column_ == 0);
    } else if (tiling_.maxNorm > 0.0f) {
      optimizer_.LimitNorms(step, updated.columns, norms_.Load(updated.place, updated.count, updated.wanted));
    }
  }

  // Of the selected table's row in `slot`. A scalar state is needed as it was until the last tile of a wide row.
  __aicore__ inline void StoreRow(const LoadedRows<T>& results, uint32_t slot, uint32_t columns) {
    if (!IsLastPhase()) {
      return;
    }
    traffic_.StoreWeights(results, slot, tables_, column_, columns);
    if (phase_ == WHOLE_STEP || column_ + columns == tables_.Width()) {
      traffic_.StoreState(results, slot, tables_, column_, columns);
    }
  }

  __aicore__ inline void StoreGroup(const Group& group, const LoadedRows<T>& results, const uint32_t* columnsOf) {
    uint32_t partials = 0;
    for (uint32_t j = 0; j < group.count; ++j) {
      const Contribution contribution = window_.At(group.first + j);
      if (columnsOf[j] == 0 || !contribution.last) {
        continue;
      }
      if (IsWhole(contribution)) {
        tables_.Select(contribution.key);
        StoreRow(results, j, columnsOf[j]);
      } else if (IsFirstPhase()) {
        const int64_t which = contribution.fromBefore ? FROM_BEFORE : GOES_ON;
        RowTraffic<T>::Store(partials_, PartialAt(group.first / BLOCK, which),
                             traffic_.PartialSlot(results, partials++), columnsOf[j]);
      }
    }
  }

  __aicore__ inline int64_t PartialAt(int64_t block, int64_t which) const {
    return (block * PARTIALS + which) * tiling_.partialPitch + column_;
  }

  // Rows that start in a block of [first, end) and go on in the next one.
  __aicore__ inline void JoinWindow(int64_t first, int64_t end) {
    for (int64_t last = first + BLOCK - 1; last < end; last += BLOCK) {
      const Contribution contribution = window_.At(last);
      if (!contribution.goesOn || contribution.fromBefore || contribution.key >= noRow_ ||
          !tables_.Select(contribution.key)) {
        continue;
      }
      const uint32_t columns = static_cast<uint32_t>(Columns(tables_.Width()));
      if (columns == 0) {
        continue;
      }
      JoinSums(contribution.key, last / BLOCK, columns);
      FinishRow(last, columns);
    }
  }

  // The running sum of a row that starts in `block`: the block's sum and those of the blocks after it.
  __aicore__ inline void JoinSums(int64_t key, int64_t block, int64_t columns) {
    const int64_t end = window_.LastBlock(key, block) + 1;
    const Tensor running = running_.Get<float>();
    for (int64_t at = block; at < end; at += tiling_.groupRows) {
      const uint32_t count = static_cast<uint32_t>(embedding::Smaller(tiling_.groupRows, end - at));
      LoadedRows<T> rows = traffic_.Begin();
      for (uint32_t j = 0; j < count; ++j) {
        const int64_t which = at + j == block ? GOES_ON : FROM_BEFORE;
        traffic_.LoadPartial(rows, j, partials_, PartialAt(at + j, which), columns);
      }
      traffic_.End(rows);
      rows = traffic_.Take();
      const Tensor sums = rows.bytes.template ReinterpretCast<float>();
      for (uint32_t j = 0; j < count; ++j) {
        if (at + j == block) {
          AscendC::Muls<float>(running, sums[j * pitch_], 1.0f, static_cast<int32_t>(columns));
        } else {
          AscendC::Add(running, running, sums[j * pitch_], static_cast<int32_t>(columns));
        }
        AscendC::PipeBarrier<PIPE_V>();
      }
      traffic_.Release(rows);
    }
  }

  // One optimizer step of the selected row with the running sum; `place` stands for its row sums.
  __aicore__ inline void FinishRow(int64_t place, uint32_t columns) {
    LoadedRows<T> rows = traffic_.Begin();
    traffic_.LoadWeights(rows, 0, tables_, column_, columns);
    traffic_.LoadState(rows, 0, tables_, column_, columns);
    traffic_.End(rows);
    rows = traffic_.Take();
    AscendC::Muls<float>(sums_.Get<float>(), running_.Get<float>(), 1.0f, static_cast<int32_t>(columns));
    AscendC::PipeBarrier<PIPE_V>();
    LoadedRows<T> results = traffic_.BeginStore();
    const uint32_t width = static_cast<uint32_t>(tables_.Width());
    const int64_t start = tables_.Weights();
    Update(rows, results, Widened(rows.weights, 1), {place, 1, 1, &columns, &width, &start});
    traffic_.Release(rows);
    results = traffic_.FinishStore(results);
    StoreRow(results, 0, columns);
    traffic_.EndStore(results);
  }

  BackwardCodegenAdagradUnweightedExactTilingData tiling_;
  RowTables tables_;
  RowTraffic<T> traffic_;
  RowOptimizer optimizer_;
  RowRounding rounding_;
  SortedWindow window_;
  SampleWeights sampleWeights_;
  AscendC::GlobalTensor<float> partials_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sums_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> running_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> wideGradients_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> wideWeights_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> wideResults_;
  uint32_t pitch_;
  RowSums squares_;  // of the gradients, and of the new rows
  RowSums norms_;
  Phase phase_;
  int64_t noRow_;
  int64_t column_;
};
