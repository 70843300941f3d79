// Sums over whole rows that are wider than a tile of columns: a float in the workspace for each sorted position, to
// which every tile adds its part. A core touches the positions of its share only, so the order of the parts is fixed.
#pragma once
#include "row_optimizer.h"

class RowSums {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR workspace, int64_t count, uint32_t rows) {
    sums_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace), static_cast<uint64_t>(count));
    pipe->InitBuffer(loaded_, rows * SCALAR_LANES * static_cast<uint32_t>(sizeof(float)));
  }

  // Adds parts[j * SCALAR_LANES], which the scalar unit has written, to position first + j where bit j is set. The
  // first tile of columns stores instead.
  __aicore__ inline void Add(const AscendC::LocalTensor<float>& parts, int64_t first, uint32_t count, uint64_t wanted,
                             bool firstTile) {
    embedding::Fence<AscendC::HardEvent::S_MTE3>();
    AscendC::PipeBarrier<PIPE_MTE3>();  // the part of the tile before has arrived
    if (!firstTile) {
      AscendC::SetAtomicAdd<float>();
    }
    for (uint32_t j = 0; j < count; ++j) {
      if ((wanted >> j & 1ULL) != 0) {
        AscendC::DataCopyPad(sums_[static_cast<uint64_t>(first + j)], parts[j * SCALAR_LANES], One());
      }
    }
    if (!firstTile) {
      AscendC::SetAtomicNone();
    }
    embedding::Fence<AscendC::HardEvent::MTE3_S>();
    embedding::Fence<AscendC::HardEvent::MTE3_V>();
  }

  // The sums that Add has left, in the same places, for the scalar unit. All cores' pipes have met since.
  __aicore__ inline AscendC::LocalTensor<float> Load(int64_t first, uint32_t count, uint64_t wanted) {
    const AscendC::LocalTensor<float> loaded = loaded_.Get<float>();
    embedding::Fence<AscendC::HardEvent::S_MTE2>();  // the group before has been read
    AscendC::PipeBarrier<PIPE_MTE2>();
    for (uint32_t j = 0; j < count; ++j) {
      if ((wanted >> j & 1ULL) != 0) {
        AscendC::DataCopyPad(loaded[j * SCALAR_LANES], sums_[static_cast<uint64_t>(first + j)], One(),
                             AscendC::DataCopyPadExtParams<float>(false, 0, 0, 0.0f));
      }
    }
    embedding::Fence<AscendC::HardEvent::MTE2_S>();
    return loaded;
  }

 private:
  __aicore__ inline static AscendC::DataCopyExtParams One() {
    return AscendC::DataCopyExtParams(1, static_cast<uint32_t>(sizeof(float)), 0, 0, 0);
  }

  AscendC::GlobalTensor<float> sums_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> loaded_;
};
