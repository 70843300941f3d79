// Puts offsets in order and replaces indices that no table has by 0, both in place, and counts what was wrong.
// Repaired offsets are the running maximum of the clamped ones: a scan over the cores, as in a prefix sum. After it the
// indices of a table are one stretch, and every core compares an equal share of them with the rows of their tables.
#include "kernel_operator.h"

#include "bounds_check_indices_tiling.h"
#include "data_faults.h"
#include "index_limits.h"
#include "violations.h"

constexpr int64_t MEETINGS = 3;

struct BoundsArguments {
  GM_ADDR rows;
  GM_ADDR indices;
  GM_ADDR offsets;
  GM_ADDR firstBags;  // null: every table has `batch` bags
  GM_ADDR warning;
  GM_ADDR report;
  GM_ADDR faults;  // null where nobody asks
};

template <typename Index, typename Offset>
class BoundsKernel {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const BoundsArguments& arguments, GM_ADDR workspace,
                              const BoundsCheckIndicesTilingData& tiling) {
    tiling_ = tiling;
    ragged_ = tiling.batch < 0;
    rows_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(arguments.rows), static_cast<uint64_t>(tiling.tables));
    indices_.SetGlobalBuffer(reinterpret_cast<__gm__ Index*>(arguments.indices), static_cast<uint64_t>(tiling.count));
    offsets_.SetGlobalBuffer(reinterpret_cast<__gm__ Offset*>(arguments.offsets),
                             static_cast<uint64_t>(tiling.bags) + 1);
    firstBags_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(arguments.firstBags),
                               ragged_ ? static_cast<uint64_t>(tiling.tables) + 1 : 0);
    warning_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(arguments.warning), 1);
    report_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(arguments.report), bounds::RECORD_WORDS);
    pipe->InitBuffer(offsetTile_, tiling.offsetTile * sizeof(Offset));
    pipe->InitBuffer(indexTile_, tiling.indexTile * sizeof(Index));
    reporter_.Init(arguments.faults, fault::BOUNDS_CHECK);
    limits_.Init(pipe, tiling.indexTile);
    board_.Init(pipe, workspace, MEETINGS);
  }

  __aicore__ inline void Process() {
    if (ragged_ && !reporter_.Silent()) {
      LookAtFirstBags();
    }
    bounds::Record found;
    found.reach = ReachOfShare();
    board_.Meet(found);  // nobody writes an offset before all have read theirs
    CheckOffsets(found);
    board_.Meet(found);
    bounds::Record offsets = Joined();
    bounds::Record entries;
    if (tiling_.repair != 0 || offsets.kind == bounds::NOTHING) {
      CheckIndices(entries);
    }
    board_.Meet(entries);
    if (AscendC::GetBlockIdx() == 0) {
      offsets.Join(Joined());
      offsets.reach = 0;  // of no use to the caller, and of as many values as there are cores
      Publish(offsets);
    }
  }

 private:
  // b_offsets is not what modes are about: no bag of a wrong table can be told from one of a right table.
  __aicore__ inline void LookAtFirstBags() {
    const int64_t blocks = AscendC::GetBlockNum();
    const int64_t block = AscendC::GetBlockIdx();
    int64_t before = firstBags_.GetValue(static_cast<uint64_t>(tiling_.tables * block / blocks));
    if (block == 0 && before != 0) {
      reporter_.Tell(fault::FIRST, fault::B_OFFSETS, 0, before, 0);
    }
    for (int64_t table = tiling_.tables * block / blocks; table < tiling_.tables * (block + 1) / blocks; ++table) {
      const int64_t next = firstBags_.GetValue(static_cast<uint64_t>(table) + 1);
      if (next < before) {
        reporter_.Tell(fault::DECREASES, fault::B_OFFSETS, table + 1, next, before);
      }
      before = next;
    }
    if (block + 1 == blocks && before != tiling_.bags) {
      reporter_.Tell(fault::NOT_THE_END, fault::B_OFFSETS, tiling_.tables, before, tiling_.bags);
    }
  }

  __aicore__ inline bounds::Record Joined() {
    bounds::Record all = board_.Of(0);
    for (int64_t block = 1; block < board_.Blocks(); ++block) {
      all.Join(board_.Of(block));
    }
    return all;
  }

  __aicore__ inline AscendC::LocalTensor<Offset> LoadOffsets(int64_t first, uint32_t count) {
    AscendC::LocalTensor<Offset> tile = offsetTile_.template Get<Offset>();
    AscendC::DataCopyPad(tile, offsets_[static_cast<uint64_t>(first)],
                         AscendC::DataCopyExtParams(1, count * static_cast<uint32_t>(sizeof(Offset)), 0, 0, 0),
                         AscendC::DataCopyPadExtParams<Offset>(false, 0, 0, 0));
    bounds::Fence<AscendC::HardEvent::MTE2_S>();
    return tile;
  }

  // The end of a bag as it is given, but for the last one, which is the number of indices.
  __aicore__ inline int64_t EndOf(int64_t bag, Offset given) const {
    return bag + 1 == tiling_.bags ? tiling_.count : static_cast<int64_t>(given);
  }

  // The largest clamped end of this core's bags, for core 0 the first start as well. Core 0 keeps the outer offsets.
  __aicore__ inline int64_t ReachOfShare() {
    firstBag_ = AscendC::GetBlockIdx() * tiling_.bagsPerCore;
    endBag_ = bounds::Smaller(firstBag_ + tiling_.bagsPerCore, tiling_.bags);
    int64_t reach = 0;
    if (AscendC::GetBlockIdx() == 0) {
      firstStart_ = static_cast<int64_t>(LoadOffsets(0, 1).GetValue(0));
      bounds::Fence<AscendC::HardEvent::S_MTE2>();
      reach = bounds::Clamp(firstStart_, 0, tiling_.count);
      givenLast_ = static_cast<int64_t>(LoadOffsets(tiling_.bags, 1).GetValue(0));
      bounds::Fence<AscendC::HardEvent::S_MTE2>();
    }
    for (int64_t bag = firstBag_; bag < endBag_; bag += tiling_.offsetTile) {
      const uint32_t count = static_cast<uint32_t>(bounds::Smaller(endBag_ - bag, tiling_.offsetTile));
      const AscendC::LocalTensor<Offset> tile = LoadOffsets(bag + 1, count);
      for (uint32_t i = 0; i < count; ++i) {
        const int64_t end = bounds::Clamp(EndOf(bag + i, tile.GetValue(i)), 0, tiling_.count);
        reach = end > reach ? end : reach;
      }
      bounds::Fence<AscendC::HardEvent::S_MTE2>();
    }
    return reach;
  }

  __aicore__ inline void CheckOffsets(bounds::Record& found) {
    int64_t running = firstStart_;
    if (AscendC::GetBlockIdx() == 0) {
      CheckEnds(found);
    } else {
      running = 0;
      for (int64_t block = 0; block < AscendC::GetBlockIdx(); ++block) {
        const int64_t reach = board_.Of(block).reach;
        running = reach > running ? reach : running;
      }
    }
    for (int64_t bag = firstBag_; bag < endBag_; bag += tiling_.offsetTile) {
      const uint32_t count = static_cast<uint32_t>(bounds::Smaller(endBag_ - bag, tiling_.offsetTile));
      const AscendC::LocalTensor<Offset> tile = LoadOffsets(bag + 1, count);
      bool changed = false;
      for (uint32_t i = 0; i < count; ++i) {
        const int64_t given = static_cast<int64_t>(tile.GetValue(i));
        const int64_t end = CheckBag(found, bag + i, running, EndOf(bag + i, static_cast<Offset>(given)));
        if (end != given && tiling_.repair != 0) {
          tile.SetValue(i, static_cast<Offset>(end));
          changed = true;
        }
        running = end;
      }
      if (changed) {
        StoreOffsets(bag + 1, tile, count);
      }
      bounds::Fence<AscendC::HardEvent::S_MTE2>();
    }
  }

  // The end of a bag after its repair.
  __aicore__ inline int64_t CheckBag(bounds::Record& found, int64_t bag, int64_t start, int64_t end) {
    if (start >= 0 && start <= end && end <= tiling_.count) {
      return end;
    }
    if (found.Add(bounds::OFFSETS)) {
      found.table = TableOfBag(bag);
      found.batch = bag - FirstBag(found.table);
      found.place = start;
      found.value = end;
    }
    const int64_t low = bounds::Clamp(start, 0, tiling_.count);
    if (bag == 0 && low != start && tiling_.repair != 0) {
      StoreFirst(low);
    }
    return bounds::Clamp(end, low, tiling_.count);
  }

  // The last offset against the number of indices; the first against 0, which only FATAL minds.
  __aicore__ inline void CheckEnds(bounds::Record& found) {
    if (tiling_.repair == 0 && firstStart_ != 0 && found.Add(bounds::FIRST_OFFSET)) {
      found.place = firstStart_;
    }
    if (givenLast_ != tiling_.count) {
      if (found.Add(bounds::LAST_OFFSET)) {
        found.place = givenLast_;
      }
      if (tiling_.bags == 0 && tiling_.repair != 0) {
        StoreFirst(tiling_.count);
      }
    }
  }

  __aicore__ inline void StoreFirst(int64_t value) {
    const AscendC::LocalTensor<Offset> word = indexTile_.template Get<Offset>();
    word.SetValue(0, static_cast<Offset>(value));
    bounds::Fence<AscendC::HardEvent::S_MTE3>();
    StoreOffsetsNow(0, word, 1);
    bounds::Fence<AscendC::HardEvent::MTE3_S>();
  }

  __aicore__ inline void StoreOffsets(int64_t first, const AscendC::LocalTensor<Offset>& tile, uint32_t count) {
    bounds::Fence<AscendC::HardEvent::S_MTE3>();
    StoreOffsetsNow(first, tile, count);
    bounds::Fence<AscendC::HardEvent::MTE3_MTE2>();
  }

  __aicore__ inline void StoreOffsetsNow(int64_t first, const AscendC::LocalTensor<Offset>& tile, uint32_t count) {
    AscendC::DataCopyPad(offsets_[static_cast<uint64_t>(first)], tile,
                         AscendC::DataCopyExtParams(1, count * static_cast<uint32_t>(sizeof(Offset)), 0, 0, 0));
  }

  // Between 0 and the number of bags, whatever b_offsets holds.
  __aicore__ inline int64_t FirstBag(int64_t table) const {
    if (!ragged_) {
      return table * tiling_.batch;
    }
    return bounds::Clamp(firstBags_.GetValue(static_cast<uint64_t>(table)), 0, tiling_.bags);
  }

  __aicore__ inline int64_t FirstIndex(int64_t table) const {
    return static_cast<int64_t>(offsets_.GetValue(static_cast<uint64_t>(FirstBag(table))));
  }

  // The last table whose first bag (first index) is at or before `value`.
  __aicore__ inline int64_t TableOfBag(int64_t value) const {
    int64_t low = 0;
    int64_t high = tiling_.tables;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (FirstBag(middle) <= value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low > 0 ? low - 1 : 0;
  }
  __aicore__ inline int64_t TableOfIndex(int64_t value) const {
    int64_t low = 0;
    int64_t high = tiling_.tables;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (FirstIndex(middle) <= value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low > 0 ? low - 1 : 0;
  }

  // The last bag of a table that starts at or before index `position`, counted from the table's first.
  __aicore__ inline int64_t BatchOf(int64_t table, int64_t position) const {
    const int64_t first = FirstBag(table);
    int64_t low = first;
    int64_t high = FirstBag(table + 1);
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (static_cast<int64_t>(offsets_.GetValue(static_cast<uint64_t>(middle))) <= position) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low > first ? low - 1 - first : 0;
  }

  __aicore__ inline void CheckIndices(bounds::Record& found) {
    int64_t at = AscendC::GetBlockIdx() * tiling_.indicesPerCore;
    const int64_t end = bounds::Smaller(at + tiling_.indicesPerCore, tiling_.count);
    if (at >= end || tiling_.tables == 0) {
      return;
    }
    for (int64_t table = TableOfIndex(at); table < tiling_.tables && at < end; ++table) {
      const int64_t first = FirstIndex(table);
      at = at < first ? first : at;  // rows before the first offset belong to no bag
      const int64_t stop = bounds::Smaller(FirstIndex(table + 1), end);
      const int64_t rows = rows_.GetValue(static_cast<uint64_t>(table));
      const int64_t limit = rows > 0 ? rows : 0;
      while (at < stop) {
        const uint32_t count = static_cast<uint32_t>(bounds::Smaller(stop - at, tiling_.indexTile));
        CheckTile(found, table, limit, at, count);
        at += count;
      }
    }
  }

  // -1 marks a pruned row and is left alone.
  __aicore__ inline void CheckTile(bounds::Record& found, int64_t table, int64_t limit, int64_t at, uint32_t count) {
    const AscendC::LocalTensor<Index> tile = indexTile_.template Get<Index>();
    const AscendC::DataCopyExtParams burst(1, count * static_cast<uint32_t>(sizeof(Index)), 0, 0, 0);
    AscendC::DataCopyPad(tile, indices_[static_cast<uint64_t>(at)], burst,
                         AscendC::DataCopyPadExtParams<Index>(false, 0, 0, 0));
    if (count >= bounds::IndexLimits::WORTH) {
      bounds::Fence<AscendC::HardEvent::MTE2_V>();
      const bool inside = limits_.AllInside(tile, count, limit);
      bounds::Fence<AscendC::HardEvent::V_MTE2>();
      if (inside) {
        return;
      }
    }
    bounds::Fence<AscendC::HardEvent::MTE2_S>();
    bool changed = false;
    for (uint32_t i = 0; i < count; ++i) {
      const int64_t value = static_cast<int64_t>(tile.GetValue(i));
      if (value < -1 || value >= limit) {
        Count(found, table, limit, at + i, value);
        if (tiling_.repair != 0) {
          tile.SetValue(i, static_cast<Index>(0));
          changed = true;
        }
      }
    }
    if (changed) {
      bounds::Fence<AscendC::HardEvent::S_MTE3>();
      AscendC::DataCopyPad(indices_[static_cast<uint64_t>(at)], tile, burst);
      bounds::Fence<AscendC::HardEvent::MTE3_MTE2>();
    }
    bounds::Fence<AscendC::HardEvent::S_MTE2>();
  }

  __aicore__ inline void Count(bounds::Record& found, int64_t table, int64_t limit, int64_t position, int64_t value) {
    if (found.Add(bounds::INDEX)) {
      found.table = table;
      found.batch = BatchOf(table, position);
      found.place = position;
      found.value = value;
      found.limit = limit;
    }
  }

  __aicore__ inline void Publish(const bounds::Record& all) {
    const AscendC::LocalTensor<int64_t> words = offsetTile_.template Get<int64_t>();
    all.Save(words);
    bounds::Fence<AscendC::HardEvent::S_MTE3>();
    AscendC::DataCopyPad(report_, words, AscendC::DataCopyExtParams(1, bounds::RECORD_BYTES, 0, 0, 0));
    if (tiling_.countWarnings != 0) {
      AscendC::DataCopyPad(warning_, words, AscendC::DataCopyExtParams(1, sizeof(int64_t), 0, 0, 0));
    }
  }

  BoundsCheckIndicesTilingData tiling_;
  bool ragged_;
  int64_t firstBag_;
  int64_t endBag_;
  int64_t firstStart_ = 0;
  int64_t givenLast_ = 0;
  AscendC::GlobalTensor<int64_t> rows_;
  AscendC::GlobalTensor<Index> indices_;
  AscendC::GlobalTensor<Offset> offsets_;
  AscendC::GlobalTensor<int64_t> firstBags_;
  AscendC::GlobalTensor<int64_t> warning_;
  AscendC::GlobalTensor<int64_t> report_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> offsetTile_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> indexTile_;
  fault::Reporter reporter_;
  bounds::IndexLimits limits_;
  bounds::Board board_;
};

extern "C" __global__ __aicore__ void bounds_check_indices(GM_ADDR rows_per_table, GM_ADDR indices, GM_ADDR offsets,
                                                           GM_ADDR warning, GM_ADDR b_offsets, GM_ADDR faults,
                                                           GM_ADDR indices_out, GM_ADDR offsets_out,
                                                           GM_ADDR warning_out, GM_ADDR report, GM_ADDR faults_out,
                                                           GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(BoundsCheckIndicesTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  AscendC::TPipe pipe;
  BoundsKernel<DTYPE_INDICES, DTYPE_OFFSETS> kernel;
  kernel.Init(&pipe, {rows_per_table, indices_out, offsets_out, b_offsets, warning_out, report, faults_out}, user,
              tilingData);
  kernel.Process();
}
