// One tile of the scan in the unified buffer: load, sum or scan on the scalar unit, store. Two slots, so that the next
// tile is on its way in while this one is summed and the previous one is on its way out.
#pragma once
#include "accumulator.h"

constexpr uint32_t SCAN_SLOTS = 2;

// A stretch of rows that lies densely in x and in y. `closes`: each row ends in this tile, with its total.
struct Tile {
  int64_t source;
  int64_t target;
  uint32_t rows;
  uint32_t columns;
  bool restarts;
  bool closes;
};

// One flag per slot. The Raised forms start and end with both flags raised: a slot that is free before its first use.
template <AscendC::HardEvent event>
class SlotFlags {
 public:
  __aicore__ inline void Open(AscendC::TPipe* pipe) {
    for (uint32_t i = 0; i < SCAN_SLOTS; ++i) {
      id_[i] = pipe->AllocEventID<event>();
    }
  }
  __aicore__ inline void Close(AscendC::TPipe* pipe) {
    for (uint32_t i = 0; i < SCAN_SLOTS; ++i) {
      pipe->ReleaseEventID<event>(id_[i]);
    }
  }
  __aicore__ inline void OpenRaised(AscendC::TPipe* pipe) {
    Open(pipe);
    for (uint32_t i = 0; i < SCAN_SLOTS; ++i) {
      Set(i);
    }
  }
  __aicore__ inline void CloseRaised(AscendC::TPipe* pipe) {
    for (uint32_t i = 0; i < SCAN_SLOTS; ++i) {
      Wait(i);
    }
    Close(pipe);
  }
  __aicore__ inline void Set(uint32_t slot) { AscendC::SetFlag<event>(id_[slot]); }
  __aicore__ inline void Wait(uint32_t slot) { AscendC::WaitFlag<event>(id_[slot]); }

 private:
  AscendC::TEventID id_[SCAN_SLOTS];
};

template <AscendC::HardEvent event>
__aicore__ inline void Fence() {
  const int32_t id = static_cast<int32_t>(GetTPipePtr()->FetchEventID(event));
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

// Integers and float: the scalar unit works on the tile as it was loaded.
template <typename T, typename Sum>
class DirectTile {
 public:
  static constexpr AscendC::HardEvent LOADED = AscendC::HardEvent::MTE2_S;
  static constexpr AscendC::HardEvent INPUT_FREE = AscendC::HardEvent::S_MTE2;
  static constexpr AscendC::HardEvent OUTPUT_FREE = AscendC::HardEvent::MTE3_S;

  __aicore__ inline void Init(AscendC::TPipe*, uint32_t) {}
  __aicore__ inline void Total(const AscendC::LocalTensor<T>& in, const Tile& tile, Sum& sum) {
    for (uint32_t i = 0; i < tile.rows * tile.columns; ++i) {
      sum.Add(in.GetValue(i));
    }
  }
  __aicore__ inline void Scan(const AscendC::LocalTensor<T>& in, const AscendC::LocalTensor<T>& out, const Tile& tile,
                              Sum& sum) {
    ScanRows(in, out, tile, sum);
    Fence<AscendC::HardEvent::S_MTE3>();
  }

  template <typename U>
  static __aicore__ inline void ScanRows(const AscendC::LocalTensor<U>& in, const AscendC::LocalTensor<U>& out,
                                         const Tile& tile, Sum& sum) {
    uint32_t from = 0;
    uint32_t to = 0;
    for (uint32_t row = 0; row < tile.rows; ++row) {
      if (tile.restarts) {
        sum.Reset();
      }
      for (uint32_t i = 0; i < tile.columns; ++i) {
        const U value = in.GetValue(from++);
        out.SetValue(to++, sum.template Value<U>());
        sum.Add(value);
      }
      if (tile.closes) {
        out.SetValue(to++, sum.template Value<U>());
      }
    }
  }
};

// half and bfloat16: converted to float on the vector unit, summed in float, each output rounded once.
template <typename T, typename Sum>
class WidenedTile {
 public:
  static constexpr AscendC::HardEvent LOADED = AscendC::HardEvent::MTE2_V;
  static constexpr AscendC::HardEvent INPUT_FREE = AscendC::HardEvent::V_MTE2;
  static constexpr AscendC::HardEvent OUTPUT_FREE = AscendC::HardEvent::MTE3_V;

  __aicore__ inline void Init(AscendC::TPipe* pipe, uint32_t elements) {
    pipe->InitBuffer(wideIn_, elements * sizeof(float));
    pipe->InitBuffer(wideOut_, elements * sizeof(float));
  }
  __aicore__ inline void Total(const AscendC::LocalTensor<T>& in, const Tile& tile, Sum& sum) {
    const AscendC::LocalTensor<float> wide = Widen(in, tile);
    for (uint32_t i = 0; i < tile.rows * tile.columns; ++i) {
      sum.Add(wide.GetValue(i));
    }
    Fence<AscendC::HardEvent::S_V>();
  }
  __aicore__ inline void Scan(const AscendC::LocalTensor<T>& in, const AscendC::LocalTensor<T>& out, const Tile& tile,
                              Sum& sum) {
    const AscendC::LocalTensor<float> wide = Widen(in, tile);
    AscendC::LocalTensor<float> result = wideOut_.template Get<float>();
    DirectTile<T, Sum>::ScanRows(wide, result, tile, sum);
    Fence<AscendC::HardEvent::S_V>();
    AscendC::Cast(out, result, AscendC::RoundMode::CAST_RINT, tile.rows * (tile.columns + (tile.closes ? 1 : 0)));
    Fence<AscendC::HardEvent::V_MTE3>();
  }

 private:
  __aicore__ inline AscendC::LocalTensor<float> Widen(const AscendC::LocalTensor<T>& in, const Tile& tile) {
    AscendC::LocalTensor<float> wide = wideIn_.template Get<float>();
    AscendC::Cast(wide, in, AscendC::RoundMode::CAST_NONE, tile.rows * tile.columns);
    Fence<AscendC::HardEvent::V_S>();
    return wide;
  }

  AscendC::TBuf<AscendC::TPosition::VECCALC> wideIn_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> wideOut_;
};
