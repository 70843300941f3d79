// y[r, 0] = 0, y[r, k] = x[r, 0] + ... + x[r, k - 1], in the type of x.
// Key 1: every core scans whole rows. Keys 2 and 3: several cores share a row: each sums its part, all meet, each scans
// its part from the sum of the parts before it. Key 3: the part stays in the unified buffer meanwhile.
#include "kernel_operator.h"

#include "asynchronous_complete_cumsum_tiling.h"
#include "scan_tile.h"

template <typename T>
struct ScanOf {
  static constexpr bool IN_PLACE = true;
  using Sum = WrappingSum;
  using Worker = DirectTile<T, Sum>;
};
template <>
struct ScanOf<float> {
  static constexpr bool IN_PLACE = true;
  using Sum = CompensatedSum;
  using Worker = DirectTile<float, Sum>;
};
template <>
struct ScanOf<half> {
  static constexpr bool IN_PLACE = false;
  using Sum = CompensatedSum;
  using Worker = WidenedTile<half, Sum>;
};
template <>
struct ScanOf<bfloat16_t> {
  static constexpr bool IN_PLACE = false;
  using Sum = CompensatedSum;
  using Worker = WidenedTile<bfloat16_t, Sum>;
};

template <typename T>
class CumsumKernel {
 public:
  using Sum = typename ScanOf<T>::Sum;
  using Worker = typename ScanOf<T>::Worker;

  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR x, GM_ADDR y, GM_ADDR workspace,
                              const AsynchronousCompleteCumsumTilingData& tiling) {
    pipe_ = pipe;
    tiling_ = tiling;
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), static_cast<uint64_t>(tiling.rows * tiling.columns));
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), static_cast<uint64_t>(tiling.rows * (tiling.columns + 1)));
    totals_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(workspace),
                            static_cast<uint64_t>(AscendC::GetBlockNum()) * SLOT_BYTES);
  }

  // Whole rows; several of them in a tile where they are short.
  __aicore__ inline void ScanWholeRows() {
    OpenSlots();
    const int64_t first = AscendC::GetBlockIdx() * tiling_.rowsPerCore;
    const int64_t rest = tiling_.rows - first;
    rowCount_ = rest < tiling_.rowsPerCore ? rest : tiling_.rowsPerCore;
    firstRow_ = first;
    Sum sum;
    if (tiling_.columns + 1 <= tiling_.tileElements) {
      rowsPerTile_ = tiling_.tileElements / (tiling_.columns + 1);
      plan_ = SHORT_ROWS;
      ForTiles<true>((rowCount_ + rowsPerTile_ - 1) / rowsPerTile_, sum, false);
    } else {
      tilesPerRow_ = (tiling_.columns + tiling_.tileElements - 1) / tiling_.tileElements;
      plan_ = LONG_ROWS;
      ForTiles<true>(rowCount_ * tilesPerRow_, sum, false);
    }
  }

  // One part of one row.
  __aicore__ inline void ScanSharedRow() {
    OpenSlots();
    const int64_t tiles = OpenPart();
    Sum sum;
    ForTiles<false>(tiles, sum, false);
    Meet(sum);
    // A part of one tile is still in the unified buffer.
    ForTiles<true>(tiles, sum, tiles == 1);
  }

  // The same; the part is loaded once and scanned where it lies.
  __aicore__ inline void ScanResidentPart() {
    if constexpr (ScanOf<T>::IN_PLACE) {
      const int64_t tiles = OpenPart();
      // The row's total follows its last prefix.
      pipe_->InitBuffer(part_, static_cast<uint32_t>(tiling_.chunk * static_cast<int64_t>(sizeof(T))) + SLOT_BYTES);
      Sum sum;
      SlotFlags<AscendC::HardEvent::MTE2_S> loaded;
      loaded.Open(pipe_);
      for (int64_t i = 0; i <= tiles; ++i) {
        if (i < tiles) {
          Load(Part(i), Resident(i));
          loaded.Set(static_cast<uint32_t>(i % SCAN_SLOTS));
        }
        if (i > 0) {
          loaded.Wait(static_cast<uint32_t>((i - 1) % SCAN_SLOTS));
          worker_.Total(Resident(i - 1), Part(i - 1), sum);
        }
      }
      loaded.Close(pipe_);
      Meet(sum);
      for (int64_t i = 0; i < tiles; ++i) {
        worker_.Scan(Resident(i), Resident(i), Part(i), sum);
        Store(Part(i), Resident(i));
      }
    }
  }

 private:
  __aicore__ inline void OpenSlots() {
    // One element more than the tile: a row's total follows its last prefix.
    const uint32_t outElements = tiling_.tileElements + 1;
    for (uint32_t i = 0; i < SCAN_SLOTS; ++i) {
      pipe_->InitBuffer(in_[i], tiling_.tileElements * sizeof(T));
      pipe_->InitBuffer(out_[i], outElements * sizeof(T));
    }
    worker_.Init(pipe_, outElements);
  }

  // This core's part; returns its tiles.
  __aicore__ inline int64_t OpenPart() {
    const int64_t block = AscendC::GetBlockIdx();
    const int64_t row = block / tiling_.parts;
    const int64_t part = block % tiling_.parts;
    partStart_ = part * tiling_.chunk;
    const int64_t rest = tiling_.columns - partStart_;
    partCount_ = rest < tiling_.chunk ? (rest > 0 ? rest : 0) : tiling_.chunk;
    firstRow_ = row;
    pipe_->InitBuffer(slots_, (tiling_.parts + 1) * SLOT_BYTES);

    plan_ = PART_OF_ROW;
    return (partCount_ + tiling_.tileElements - 1) / tiling_.tileElements;
  }
  __aicore__ inline AscendC::LocalTensor<T> Resident(int64_t tile) {
    return part_.template Get<T>()[static_cast<uint32_t>(tile * tiling_.tileElements)];
  }

  // From the sum of this core's part to that of the parts before it.
  __aicore__ inline void Meet(Sum& sum) {
    const int64_t block = AscendC::GetBlockIdx();
    const int64_t part = block % tiling_.parts;
    PublishTotal(block, sum);
    sum.Reset();
    AddTotalsBefore(block - part, part, sum);
  }

  __aicore__ inline Tile ShortRows(int64_t i) const {
    const int64_t begin = i * rowsPerTile_;
    const int64_t rest = rowCount_ - begin;
    Tile tile;
    tile.source = (firstRow_ + begin) * tiling_.columns;
    tile.target = (firstRow_ + begin) * (tiling_.columns + 1);
    tile.rows = static_cast<uint32_t>(rest < rowsPerTile_ ? rest : rowsPerTile_);
    tile.columns = static_cast<uint32_t>(tiling_.columns);
    tile.restarts = true;
    tile.closes = true;
    return tile;
  }

  __aicore__ inline Tile LongRow(int64_t i) const {
    return Stretch(firstRow_ + i / tilesPerRow_, i % tilesPerRow_ * tiling_.tileElements, tiling_.columns, true);
  }

  __aicore__ inline Tile Part(int64_t i) const {
    return Stretch(firstRow_, partStart_ + i * tiling_.tileElements, partStart_ + partCount_, false);
  }

  // At most one tile of `row` from column `from`, before column `end`.
  __aicore__ inline Tile Stretch(int64_t row, int64_t from, int64_t end, bool wholeRow) const {
    const int64_t rest = end - from;
    Tile tile;
    tile.source = row * tiling_.columns + from;
    tile.target = row * (tiling_.columns + 1) + from;
    tile.rows = 1;
    tile.columns = rest < tiling_.tileElements ? static_cast<uint32_t>(rest) : tiling_.tileElements;
    tile.restarts = wholeRow && from == 0;
    tile.closes = from + tile.columns == tiling_.columns;
    return tile;
  }

  __aicore__ inline Tile TileAt(int64_t i) const {
    if (plan_ == SHORT_ROWS) {
      return ShortRows(i);
    }
    return plan_ == LONG_ROWS ? LongRow(i) : Part(i);
  }

  // `resident`: the only tile has been loaded before.
  template <bool scan>
  __aicore__ inline void ForTiles(int64_t count, Sum& sum, bool resident) {
    SlotFlags<Worker::LOADED> loaded;
    SlotFlags<Worker::INPUT_FREE> inputFree;
    SlotFlags<Worker::OUTPUT_FREE> outputFree;
    loaded.Open(pipe_);
    inputFree.OpenRaised(pipe_);
    outputFree.OpenRaised(pipe_);
    for (int64_t i = 0; i <= count; ++i) {
      if (i < count) {
        const uint32_t slot = static_cast<uint32_t>(i % SCAN_SLOTS);
        inputFree.Wait(slot);
        if (!resident) {
          Load(TileAt(i), in_[slot].template Get<T>());
        }
        loaded.Set(slot);
      }
      if (i > 0) {
        const uint32_t slot = static_cast<uint32_t>((i - 1) % SCAN_SLOTS);
        const Tile tile = TileAt(i - 1);
        const AscendC::LocalTensor<T> in = in_[slot].template Get<T>();
        loaded.Wait(slot);
        if constexpr (scan) {
          outputFree.Wait(slot);
          worker_.Scan(in, out_[slot].template Get<T>(), tile, sum);
          Store(tile, out_[slot].template Get<T>());
          outputFree.Set(slot);
        } else {
          worker_.Total(in, tile, sum);
        }
        inputFree.Set(slot);
      }
    }
    loaded.Close(pipe_);
    inputFree.CloseRaised(pipe_);
    outputFree.CloseRaised(pipe_);
  }

  __aicore__ inline void Load(const Tile& tile, const AscendC::LocalTensor<T>& to) {
    const uint32_t bytes = tile.rows * tile.columns * static_cast<uint32_t>(sizeof(T));
    AscendC::DataCopyPad(to, x_[tile.source], AscendC::DataCopyExtParams(1, bytes, 0, 0, 0),
                         AscendC::DataCopyPadExtParams<T>(false, 0, 0, T()));
  }

  __aicore__ inline void Store(const Tile& tile, const AscendC::LocalTensor<T>& from) {
    const uint32_t elements = tile.rows * (tile.columns + (tile.closes ? 1 : 0));
    AscendC::DataCopyPad(y_[tile.target], from,
                         AscendC::DataCopyExtParams(1, elements * static_cast<uint32_t>(sizeof(T)), 0, 0, 0));
  }

  __aicore__ inline void PublishTotal(int64_t block, const Sum& sum) {
    AscendC::LocalTensor<uint8_t> slot = slots_.Get<uint8_t>();
    AscendC::Duplicate<uint32_t>(slot.ReinterpretCast<uint32_t>(), 0u, SLOT_BYTES / sizeof(uint32_t));
    Fence<AscendC::HardEvent::V_S>();
    sum.Save(slot);
    Fence<AscendC::HardEvent::S_MTE3>();
    AscendC::DataCopyPad(totals_[block * SLOT_BYTES], slot, AscendC::DataCopyExtParams(1, SLOT_BYTES, 0, 0, 0));
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::SyncAll();
  }

  __aicore__ inline void AddTotalsBefore(int64_t firstBlock, int64_t count, Sum& sum) {
    if (count == 0) {
      return;
    }
    AscendC::LocalTensor<uint8_t> totals = slots_.Get<uint8_t>()[SLOT_BYTES];
    AscendC::DataCopyPad(totals, totals_[firstBlock * SLOT_BYTES],
                         AscendC::DataCopyExtParams(1, static_cast<uint32_t>(count) * SLOT_BYTES, 0, 0, 0),
                         AscendC::DataCopyPadExtParams<uint8_t>(false, 0, 0, 0));
    Fence<AscendC::HardEvent::MTE2_S>();
    for (int64_t i = 0; i < count; ++i) {
      sum.AddSaved(totals[static_cast<uint32_t>(i) * SLOT_BYTES]);
    }
  }

  enum Plan : uint32_t { SHORT_ROWS, LONG_ROWS, PART_OF_ROW };

  AscendC::TPipe* pipe_;
  Plan plan_;
  AsynchronousCompleteCumsumTilingData tiling_;
  Worker worker_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> in_[SCAN_SLOTS];
  AscendC::TBuf<AscendC::TPosition::VECCALC> out_[SCAN_SLOTS];
  AscendC::TBuf<AscendC::TPosition::VECCALC> part_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> slots_;
  AscendC::GlobalTensor<T> x_;
  AscendC::GlobalTensor<T> y_;
  AscendC::GlobalTensor<uint8_t> totals_;
  int64_t firstRow_;
  int64_t rowCount_;
  int64_t rowsPerTile_;
  int64_t tilesPerRow_;
  int64_t partStart_;
  int64_t partCount_;
};

extern "C" __global__ __aicore__ void asynchronous_complete_cumsum(GM_ADDR x, GM_ADDR y, GM_ADDR workspace,
                                                                   GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(AsynchronousCompleteCumsumTilingData);
  GET_TILING_DATA(tilingData, tiling);
  KERNEL_TASK_TYPE(1, KERNEL_TYPE_AIV_ONLY);
  KERNEL_TASK_TYPE(2, KERNEL_TYPE_MIX_AIV_1_0);
  KERNEL_TASK_TYPE(3, KERNEL_TYPE_MIX_AIV_1_0);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  AscendC::TPipe pipe;
  CumsumKernel<DTYPE_X> kernel;
  kernel.Init(&pipe, x, y, user, tilingData);
  if (TILING_KEY_IS(1)) {
    kernel.ScanWholeRows();
  } else if (TILING_KEY_IS(2)) {
    kernel.ScanSharedRow();
  } else if (TILING_KEY_IS(3)) {
    kernel.ScanResidentPart();
  }
}
