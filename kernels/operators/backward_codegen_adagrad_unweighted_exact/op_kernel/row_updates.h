// Third step: the sum of each row's contributions, in the order of the indices, and one optimizer step per row.
// A row whose contributions lie in one block of 128 is finished at once. Of the others each block leaves its sum in
// the workspace, and after all cores have met, the core of the first block adds them in order.
#pragma once
#include "row_traffic.h"
#include "sorted_window.h"

enum PartialSum : int64_t { FROM_BEFORE = 0, GOES_ON = 1, PARTIALS = 2 };

template <typename T>
class RowUpdates {
public:
    __aicore__ inline void Init(AscendC::TPipe *pipe, const BackwardArguments &in, GM_ADDR partials, int64_t noRow,
                                const AscendC::GlobalTensor<uint32_t> &sorted,
                                const BackwardCodegenAdagradUnweightedExactTilingData &tiling)
    {
        tiling_ = tiling;
        pitch_ = tiling.tileColumns;
        noRow_ = noRow;
        tables_.Init(in, tiling);
        traffic_.Init(pipe, in, tiling);
        optimizer_.Init(pipe, tiling);
        window_.Init(pipe, sorted, tiling.indexCount);
        const int64_t blocks = (tiling.indexCount + BLOCK - 1) / BLOCK;
        partials_.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(partials),
                                  static_cast<uint64_t>(blocks * PARTIALS * tiling.partialPitch));
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
        if (tiling.weightsGradient != 0) {
            pipe->InitBuffer(dots_, tiling.groupRows * SCALAR_LANES * sizeof(float));
            dotsOut_.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(in.indiceWeightsGradient),
                                     static_cast<uint64_t>(tiling.indexCount));
            factors_.SetGlobalBuffer(reinterpret_cast<__gm__ float *>(in.indiceWeights),
                                     static_cast<uint64_t>(tiling.indexCount));
            offsets_.Init(in.offsets, tiling.bags + 1, tiling.offsetBytes);
            hasMask_ = in.featureRequiresGrad != nullptr;
            mask_.Init(in.featureRequiresGrad, tiling.features, sizeof(int32_t));
        }
    }

    // Sorted positions [first, end), first on a block border.
    __aicore__ inline void SumBlocks(int64_t first, int64_t end)
    {
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

    // After all cores have met: the rows that start in [first, end) and go on in another block.
    __aicore__ inline void JoinBlocks(int64_t first, int64_t end)
    {
        for (column_ = 0; column_ < tiling_.maxWidth; column_ += pitch_) {
            for (int64_t at = first; at < end; at += WINDOW) {
                window_.Open(at);
                if (window_.Key(at) >= noRow_) {
                    break;
                }
                for (int64_t last = at + BLOCK - 1; last < embedding::Smaller(end, at + WINDOW); last += BLOCK) {
                    const Contribution contribution = window_.At(last);
                    if (contribution.goesOn && !contribution.fromBefore && contribution.key < noRow_) {
                        JoinRow(contribution.key, last / BLOCK);
                    }
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

    __aicore__ inline int64_t Columns(int64_t width) const
    {
        return embedding::Larger(0, embedding::Smaller(width - column_, pitch_));
    }

    // Groups of the window: one is loaded while the one before is summed.
    __aicore__ inline void SumWindow(int64_t first, int64_t end)
    {
        Group next = LoadGroup(first, end);
        while (next.count > 0) {
            const Group group = next;
            next = LoadGroup(group.first + group.count, end);
            SumGroup(group);
        }
    }

    __aicore__ inline bool IsWhole(const Contribution &contribution) const
    {
        return contribution.last && !contribution.fromBefore && !contribution.goesOn;
    }

    __aicore__ inline Group LoadGroup(int64_t first, int64_t end)
    {
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

    __aicore__ inline void SumGroup(const Group &group)
    {
        LoadedRows<T> rows = traffic_.Take();
        const Tensor gradients = traffic_.Gradients(rows, wideGradients_.Get<float>(), group.count);
        const int32_t lanes = static_cast<int32_t>(group.count * pitch_);
        if (tiling_.maxGradient >= 0.0f) {
            AscendC::Mins<float>(gradients, gradients, tiling_.maxGradient, lanes);
            AscendC::PipeBarrier<PIPE_V>();
            AscendC::Maxs<float>(gradients, gradients, -tiling_.maxGradient, lanes);
            AscendC::PipeBarrier<PIPE_V>();
        }
        const Tensor weights = Widened(rows.weights, group.count);
        if (tiling_.weightsGradient != 0) {
            StoreDots(group, gradients, weights);
        }
        LoadedRows<T> results = traffic_.BeginStore();
        uint32_t partials = 0;
        uint64_t whole = 0;
        uint32_t columnsOf[MAX_GROUP];
        for (uint32_t j = 0; j < group.count; ++j) {
            const Contribution contribution = window_.At(group.first + j);
            columnsOf[j] = tables_.Select(contribution.key) ? static_cast<uint32_t>(Columns(tables_.Width())) : 0;
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
            Update(rows, results, weights, group.count, whole, columnsOf);
        }
        traffic_.Release(rows);
        results = traffic_.FinishStore(results);
        StoreGroup(group, results, columnsOf);
        traffic_.EndStore(results);
    }

    __aicore__ inline Tensor Widened(const AscendC::LocalTensor<T> &rows, uint32_t count)
    {
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
    __aicore__ inline void AddContribution(const Tensor &target, const Tensor &gradient,
                                           const Contribution &contribution, int32_t columns)
    {
        const float scale = ScaleOf(contribution);
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

    // With the gradient of indice_weights the record holds the index, and the scale is looked up again.
    __aicore__ inline float ScaleOf(const Contribution &contribution) const
    {
        if (tiling_.weightsGradient == 0) {
            return FloatOfBits(contribution.extra);
        }
        return factors_.GetValue(contribution.extra) * MeanScale(contribution.source);
    }

    __aicore__ inline float MeanScale(uint32_t bag) const
    {
        if (tiling_.pooling != embedding::POOL_MEAN) {
            return 1.0f;
        }
        return 1.0f / static_cast<float>(offsets_.At(static_cast<int64_t>(bag) + 1) - offsets_.At(bag));
    }

    __aicore__ inline void Update(const LoadedRows<T> &rows, const LoadedRows<T> &results, const Tensor &weights,
                                  uint32_t count, uint64_t whole, const uint32_t *columnsOf)
    {
        OptimizerRows step;
        step.weights = weights;
        step.momentum1 = rows.momentum1;
        step.momentum2 = rows.momentum2;
        step.gradients = sums_.Get<float>();
        step.newMomentum1 = results.momentum1;
        step.newMomentum2 = results.momentum2;
        step.count = count;
        step.wanted = whole;
        if constexpr (std::is_same<T, float>::value) {
            step.newWeights = results.weights;
            optimizer_.Step(step, columnsOf);
        } else {
            step.newWeights = wideResults_.Get<float>();
            optimizer_.Step(step, columnsOf);
            AscendC::Cast(results.weights, step.newWeights, AscendC::RoundMode::CAST_RINT, count * pitch_);
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    __aicore__ inline void StoreGroup(const Group &group, const LoadedRows<T> &results, const uint32_t *columnsOf)
    {
        uint32_t partials = 0;
        for (uint32_t j = 0; j < group.count; ++j) {
            const Contribution contribution = window_.At(group.first + j);
            if (columnsOf[j] == 0 || !contribution.last) {
                continue;
            }
            if (IsWhole(contribution)) {
                tables_.Select(contribution.key);
                traffic_.StoreRow(results, j, tables_, column_, columnsOf[j]);
            } else {
                const int64_t which = contribution.fromBefore ? FROM_BEFORE : GOES_ON;
                RowTraffic<T>::Store(partials_, PartialAt(group.first / BLOCK, which),
                                     traffic_.PartialSlot(results, partials++), columnsOf[j]);
            }
        }
    }

    __aicore__ inline int64_t PartialAt(int64_t block, int64_t which) const
    {
        return (block * PARTIALS + which) * tiling_.partialPitch + column_;
    }

    // Gradient of indice_weights: the product of each contribution's gradient with its row, before any update.
    __aicore__ inline void StoreDots(const Group &group, const Tensor &gradients, const Tensor &weights)
    {
        const Tensor work = optimizer_.Work();
        const Tensor dots = dots_.Get<float>();
        embedding::Fence<AscendC::HardEvent::S_V>();
        AscendC::Mul(work, gradients, weights, static_cast<int32_t>(group.count * pitch_));
        AscendC::PipeBarrier<PIPE_V>();
        for (uint32_t j = 0; j < group.count; ++j) {
            if (tables_.Select(window_.Key(group.first + j))) {
                Fold(work[j * pitch_], static_cast<uint32_t>(Columns(tables_.Width())));
            }
        }
        embedding::Fence<AscendC::HardEvent::V_S>();
        embedding::Fence<AscendC::HardEvent::MTE3_S>();
        for (uint32_t j = 0; j < group.count; ++j) {
            const Contribution contribution = window_.At(group.first + j);
            float dot = 0.0f;
            if (tables_.Select(contribution.key) && Wanted(contribution.source)) {
                dot = FoldedSum(work[j * pitch_], static_cast<uint32_t>(Columns(tables_.Width()))) *
                      MeanScale(contribution.source);
            }
            dots.SetValue(j * SCALAR_LANES, dot);
        }
        embedding::Fence<AscendC::HardEvent::S_MTE3>();
        for (uint32_t j = 0; j < group.count; ++j) {
            RowTraffic<T>::Store(dotsOut_, static_cast<int64_t>(window_.At(group.first + j).extra),
                                 dots[j * SCALAR_LANES], 1);
        }
        embedding::Fence<AscendC::HardEvent::S_V>();
    }

    __aicore__ inline bool Wanted(uint32_t bag) const
    {
        return !hasMask_ || mask_.At(static_cast<int64_t>(bag) / tiling_.batch) != 0;
    }

    // The row of `key` starts in `block` and goes on: its sums are the block's and those of the blocks after it.
    __aicore__ inline void JoinRow(int64_t key, int64_t block)
    {
        if (!tables_.Select(key)) {
            return;
        }
        const int64_t columns = Columns(tables_.Width());
        if (columns == 0) {
            return;
        }
        const int64_t end = LastBlock(key, block) + 1;
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
        FinishRow(static_cast<uint32_t>(columns));
    }

    // One optimizer step of the selected row with the running sum.
    __aicore__ inline void FinishRow(uint32_t columns)
    {
        LoadedRows<T> rows = traffic_.Begin();
        traffic_.LoadWeights(rows, 0, tables_, column_, columns);
        traffic_.LoadState(rows, 0, tables_, column_, columns);
        traffic_.End(rows);
        rows = traffic_.Take();
        AscendC::Muls<float>(sums_.Get<float>(), running_.Get<float>(), 1.0f, static_cast<int32_t>(columns));
        AscendC::PipeBarrier<PIPE_V>();
        LoadedRows<T> results = traffic_.BeginStore();
        Update(rows, results, Widened(rows.weights, 1), 1, 1, &columns);
        traffic_.Release(rows);
        results = traffic_.FinishStore(results);
        traffic_.StoreRow(results, 0, tables_, column_, columns);
        traffic_.EndStore(results);
    }

    // The last block that holds contributions of `key`, which goes on after `block`.
    __aicore__ inline int64_t LastBlock(int64_t key, int64_t block)
    {
        const int64_t blocks = (tiling_.indexCount + BLOCK - 1) / BLOCK;
        int64_t low = block + 1;               // starts with the key
        int64_t step = 1;
        while (low + step < blocks && window_.Probe((low + step) * BLOCK) == key) {
            low += step;
            step *= 2;
        }
        int64_t high = embedding::Smaller(blocks, low + step);     // does not
        while (high - low > 1) {
            const int64_t middle = low + (high - low) / 2;
            if (window_.Probe(middle * BLOCK) == key) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return low;
    }

    BackwardCodegenAdagradUnweightedExactTilingData tiling_;
    RowTables tables_;
    RowTraffic<T> traffic_;
    RowOptimizer optimizer_;
    SortedWindow window_;
    AscendC::GlobalTensor<float> partials_;
    AscendC::GlobalTensor<float> dotsOut_;
    AscendC::GlobalTensor<float> factors_;
    embedding::Integers offsets_;
    embedding::Integers mask_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sums_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> running_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wideGradients_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wideWeights_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wideResults_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> dots_;
    bool hasMask_;
    uint32_t pitch_;
    int64_t noRow_;
    int64_t column_;
};
