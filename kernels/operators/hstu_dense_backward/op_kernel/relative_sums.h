// The gradients of the tables of the relative bias: each core has summed the cells of its tasks; these are added up in
// the order of the cores.
#pragma once
#include "hstu_block.h"
#include "hstu_relative.h"

namespace hstu {

class RelativeSums {
 public:
  __aicore__ inline void Init(const HstuTilingData& tiling, GM_ADDR position, GM_ADDR time, GM_ADDR workspace,
                              TurnedTable& table) {
    tiling_ = &tiling;
    table_ = &table;
    cores_ = AscendC::GetBlockNum() * AscendC::GetSubBlockNum();
    position_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(position),
                              static_cast<uint64_t>(tiling.relative.positions));
    time_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(time), static_cast<uint64_t>(tiling.relative.buckets));
    workspace_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace), PlaceOfAll(tiling));
  }

  // After all tasks. Cores share out the distances in stretches; the last one has the time buckets.
  __aicore__ inline void Process(const AscendC::LocalTensor<float>& timeSums) {
    WaitFor<AscendC::HardEvent::V_MTE3>();
    AscendC::DataCopy(workspace_[CorePlace(*tiling_, AscendC::GetBlockIdx()) + tiling_->relative.timeSumsOffset],
                      timeSums, static_cast<uint32_t>(tiling_->relative.buckets * HSTU_SUM_LANES));
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::SyncAll();
    for (int64_t distance = AscendC::GetBlockIdx() * HSTU_TURN; distance < tiling_->relative.positions;
         distance += cores_ * HSTU_TURN) {
      SumDistances(distance);
    }
    if (AscendC::GetBlockIdx() == cores_ - 1) {
      SumTimes();
    }
  }

 private:
  // HSTU_TURN elements from `offset` on of every core's workspace, added into From().
  __aicore__ inline void AddCores(uint64_t offset) {
    const AscendC::DataCopyExtParams burst(1, static_cast<uint32_t>(HSTU_TURN * static_cast<int64_t>(sizeof(float))), 0,
                                           0, 0);
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::Duplicate(table_->From(), 0.0f, static_cast<int32_t>(HSTU_TURN));
    Then();
    for (int64_t core = 0; core < cores_; ++core) {
      WaitFor<AscendC::HardEvent::V_MTE2>();
      AscendC::DataCopyPad(table_->To(), workspace_[CorePlace(*tiling_, core) + offset], burst,
                           AscendC::DataCopyPadExtParams<float>(false, 0, 0, 0.0f));
      WaitFor<AscendC::HardEvent::MTE2_V>();
      AscendC::Add(table_->From(), table_->From(), table_->To(), static_cast<int32_t>(HSTU_TURN));
      Then();
    }
  }

  __aicore__ inline void SumDistances(int64_t distance) {
    float later = 0.0f;
    if (distance == 0) {
      later = SumOfTail();
    }
    AddCores(tiling_->relative.sumsOffset + static_cast<uint64_t>(table_->PlaceOf(distance)));
    if (distance == 0) {
      WaitFor<AscendC::HardEvent::V_S>();
      const uint32_t zero = static_cast<uint32_t>(HSTU_TURN - 1);
      table_->From().SetValue(zero, table_->From().GetValue(zero) + later);
      WaitFor<AscendC::HardEvent::S_V>();
    }
    table_->Turn();
    table_->Store(position_[static_cast<uint64_t>(distance)], Least(HSTU_TURN, tiling_->relative.positions - distance));
  }
  // Keys behind their query have distance 0.
  __aicore__ inline float SumOfTail() {
    AddCores(tiling_->relative.sumsOffset + static_cast<uint64_t>(table_->PlaceOfTail()));
    WaitFor<AscendC::HardEvent::V_S>();
    float sum = 0.0f;
    for (int64_t i = 0; i < HSTU_TILE_SIDE; ++i) {
      sum += table_->From().GetValue(static_cast<uint32_t>(i));
    }
    return sum;
  }

  __aicore__ inline void SumTimes() {
    constexpr int64_t AT_ONCE = HSTU_TURN / HSTU_SUM_LANES;
    for (int64_t bucket = 0; bucket < tiling_->relative.buckets; bucket += AT_ONCE) {
      AddCores(tiling_->relative.timeSumsOffset + static_cast<uint64_t>(bucket * HSTU_SUM_LANES));
      WaitFor<AscendC::HardEvent::V_S>();
      const int64_t count = Least(AT_ONCE, tiling_->relative.buckets - bucket);
      for (int64_t i = 0; i < count; ++i) {
        float sum = 0.0f;
        for (int64_t lane = 0; lane < HSTU_SUM_LANES; ++lane) {
          sum += table_->From().GetValue(static_cast<uint32_t>(i * HSTU_SUM_LANES + lane));
        }
        table_->To().SetValue(static_cast<uint32_t>(i), sum);
      }
      WaitFor<AscendC::HardEvent::S_MTE3>();
      table_->Store(time_[static_cast<uint64_t>(bucket)], count);
    }
  }

  const HstuTilingData* tiling_;
  TurnedTable* table_;
  int64_t cores_;
  AscendC::GlobalTensor<float> position_;
  AscendC::GlobalTensor<float> time_;
  AscendC::GlobalTensor<float> workspace_;
};

}  // namespace hstu
