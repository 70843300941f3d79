// Second step: stable radix sort of the records by key, all cores together. Each pass counts the digits of every
// core's share, meets, and moves the records to their places; a tile is grouped by digit in the unified buffer first,
// so that a digit's records leave in one transfer.
#pragma once
#include "contribution.h"

constexpr uint32_t DIGIT_BITS = 8;
constexpr uint32_t DIGITS = 1u << DIGIT_BITS;
constexpr uint32_t COUNT_BYTES = DIGITS * sizeof(int32_t);
constexpr uint32_t COUNT_UNIT = 64;  // counters that one vector instruction adds

class RadixSort {
 public:
  // counts: room for DIGITS integers per core in the workspace.
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR counts, int64_t first, int64_t end) {
    counts_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(counts),
                            static_cast<uint64_t>(AscendC::GetBlockNum()) * DIGITS);
    first_ = first;
    end_ = end;
    pipe->InitBuffer(in_, SORT_TILE * RECORD_BYTES);
    pipe->InitBuffer(out_, (SORT_TILE + DIGITS) * RECORD_BYTES);  // each digit starts on 32 bytes
    pipe->InitBuffer(tileStart_, COUNT_BYTES);
    pipe->InitBuffer(next_, COUNT_BYTES);
    pipe->InitBuffer(total_, COUNT_BYTES);
    pipe->InitBuffer(row_, COUNT_BYTES);
  }

  // Of SORT_TILE records in the unified buffer.
  __aicore__ inline AscendC::LocalTensor<uint32_t> Tile() { return in_.Get<uint32_t>(); }

  // Sorts by the low `bits` bits of the keys. `loaded`: Tile() holds the share of this core, not `records`. True: the
  // result is in `scratch`.
  __aicore__ inline bool Sort(AscendC::GlobalTensor<uint32_t> records, AscendC::GlobalTensor<uint32_t> scratch,
                              uint32_t bits, bool loaded) {
    const uint32_t passes = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    for (uint32_t pass = 0; pass < passes; ++pass) {
      const uint32_t low = bits * pass / passes;
      shift_ = low;
      mask_ = (1u << (bits * (pass + 1) / passes - low)) - 1u;
      counters_ = (mask_ + COUNT_UNIT) / COUNT_UNIT * COUNT_UNIT;
      Count(pass % 2 == 0 ? records : scratch, loaded && pass == 0);
      FindPlaces();
      Move(pass % 2 == 0 ? records : scratch, pass % 2 == 0 ? scratch : records);
      Meet();
    }
    return passes % 2 == 1;
  }

  __aicore__ inline static void Meet() {
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::SyncAll();
  }

 private:
  __aicore__ inline Records LoadTile(const AscendC::GlobalTensor<uint32_t>& from, int64_t at, int64_t count) {
    embedding::Fence<AscendC::HardEvent::S_MTE2>();
    AscendC::PipeBarrier<PIPE_MTE2>();
    LoadRecords(in_.Get<uint32_t>(), from, at, count);
    embedding::Fence<AscendC::HardEvent::MTE2_S>();
    return LoadedTile();
  }
  __aicore__ inline Records LoadedTile() {
    Records records;
    records.Attach(Tile());
    return records;
  }

  __aicore__ inline void Clear(AscendC::TBuf<AscendC::TPosition::VECCALC>& counters) {
    embedding::Fence<AscendC::HardEvent::S_V>();
    AscendC::Duplicate<int32_t>(counters.Get<int32_t>(), 0, DIGITS);
    embedding::Fence<AscendC::HardEvent::V_S>();
  }

  __aicore__ inline void Count(const AscendC::GlobalTensor<uint32_t>& from, bool loaded) {
    Clear(total_);
    const AscendC::LocalTensor<int32_t> counters = total_.Get<int32_t>();
    for (int64_t at = first_; at < end_; at += SORT_TILE) {
      const int64_t count = embedding::Smaller(SORT_TILE, end_ - at);
      const Records records = loaded ? LoadedTile() : LoadTile(from, at, count);
      for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) {
        const uint32_t digit = records.Digit(i, shift_, mask_);
        counters.SetValue(digit, counters.GetValue(digit) + 1);
      }
    }
    embedding::Fence<AscendC::HardEvent::S_MTE3>();
    AscendC::DataCopyPad(counts_[static_cast<uint64_t>(AscendC::GetBlockIdx()) * counters_], counters,
                         AscendC::DataCopyExtParams(1, CountBytes(), 0, 0, 0));
    Meet();
  }

  // next_[d]: where this core's first record with digit d goes. Smaller digits of all cores stand before it, and the
  // same digit of the cores before this one.
  __aicore__ inline void FindPlaces() {
    const AscendC::LocalTensor<int32_t> total = total_.Get<int32_t>();
    const AscendC::LocalTensor<int32_t> next = next_.Get<int32_t>();
    const AscendC::LocalTensor<int32_t> rows = out_.Get<int32_t>();  // in_ keeps the tile that was counted
    const int64_t rowsAtOnce = SORT_TILE * RECORD_BYTES / CountBytes();
    AscendC::Duplicate<int32_t>(total, 0, DIGITS);
    AscendC::Duplicate<int32_t>(next, 0, DIGITS);
    embedding::Fence<AscendC::HardEvent::S_MTE2>();
    for (int64_t first = 0; first < AscendC::GetBlockNum(); first += rowsAtOnce) {
      const int64_t count = embedding::Smaller(rowsAtOnce, AscendC::GetBlockNum() - first);
      embedding::Fence<AscendC::HardEvent::V_MTE2>();
      AscendC::PipeBarrier<PIPE_MTE2>();
      AscendC::DataCopyPad(rows, counts_[static_cast<uint64_t>(first) * counters_],
                           AscendC::DataCopyExtParams(1, static_cast<uint32_t>(count) * CountBytes(), 0, 0, 0),
                           AscendC::DataCopyPadExtParams<int32_t>(false, 0, 0, 0));
      embedding::Fence<AscendC::HardEvent::MTE2_V>();
      for (int64_t i = 0; i < count; ++i) {
        const AscendC::LocalTensor<int32_t> row = rows[static_cast<uint32_t>(i) * counters_];
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Add(total, total, row, static_cast<int32_t>(counters_));
        if (first + i < AscendC::GetBlockIdx()) {
          AscendC::Add(next, next, row, static_cast<int32_t>(counters_));
        }
      }
    }
    embedding::Fence<AscendC::HardEvent::V_S>();
    int32_t before = 0;
    for (uint32_t digit = 0; digit <= mask_; ++digit) {
      next.SetValue(digit, next.GetValue(digit) + before);
      before += total.GetValue(digit);
    }
  }

  __aicore__ inline void Move(const AscendC::GlobalTensor<uint32_t>& from, const AscendC::GlobalTensor<uint32_t>& to) {
    const bool loaded = end_ - first_ <= SORT_TILE;  // by Count
    for (int64_t at = first_; at < end_; at += SORT_TILE) {
      const uint32_t count = static_cast<uint32_t>(embedding::Smaller(SORT_TILE, end_ - at));
      const Records records = loaded ? LoadedTile() : LoadTile(from, at, count);
      GroupTile(records, count);
      StoreTile(to);
    }
  }

  // What the cores tell each other of a pass.
  __aicore__ inline uint32_t CountBytes() const { return counters_ * static_cast<uint32_t>(sizeof(int32_t)); }

  // row_: records of each digit in the tile; tileStart_: where they end in out_, after which grouping is done.
  __aicore__ inline void GroupTile(const Records& records, uint32_t count) {
    Clear(row_);
    const AscendC::LocalTensor<int32_t> counters = row_.Get<int32_t>();
    const AscendC::LocalTensor<int32_t> start = tileStart_.Get<int32_t>();
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t digit = records.Digit(i, shift_, mask_);
      counters.SetValue(digit, counters.GetValue(digit) + 1);
    }
    int32_t at = 0;
    for (uint32_t digit = 0; digit <= mask_; ++digit) {
      start.SetValue(digit, at);
      at += (counters.GetValue(digit) + 1) / 2 * 2;
    }
    Records grouped;
    grouped.Attach(out_.Get<uint32_t>());
    embedding::Fence<AscendC::HardEvent::MTE3_S>();  // the tile before has left
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t digit = records.Digit(i, shift_, mask_);
      const int32_t place = start.GetValue(digit);
      grouped.Copy(static_cast<uint32_t>(place), records, i);
      start.SetValue(digit, place + 1);
    }
  }

  __aicore__ inline void StoreTile(const AscendC::GlobalTensor<uint32_t>& to) {
    const AscendC::LocalTensor<int32_t> counters = row_.Get<int32_t>();
    const AscendC::LocalTensor<int32_t> start = tileStart_.Get<int32_t>();
    const AscendC::LocalTensor<int32_t> next = next_.Get<int32_t>();
    embedding::Fence<AscendC::HardEvent::S_MTE3>();
    for (uint32_t digit = 0; digit <= mask_; ++digit) {
      const int32_t count = counters.GetValue(digit);
      if (count == 0) {
        continue;
      }
      const uint32_t place = static_cast<uint32_t>(start.GetValue(digit) - count);
      StoreRecords(to, next.GetValue(digit), out_.Get<uint32_t>()[place * RECORD_WORDS], count);
      next.SetValue(digit, next.GetValue(digit) + count);
    }
  }

  AscendC::GlobalTensor<int32_t> counts_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> in_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> tileStart_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> next_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> total_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> row_;
  int64_t first_;
  int64_t end_;
  uint32_t shift_;
  uint32_t mask_;
  uint32_t counters_;
};
