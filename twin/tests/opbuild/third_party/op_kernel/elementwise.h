// One input, one output, queues of two buffers: `Compute` has the vector code of an operator.
#pragma once
#include "kernel_operator.h"

template <typename T, typename Compute>
class Elementwise {
 public:
  __aicore__ inline Elementwise() {}
  template <typename Tiling>
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const Tiling& tiling) {
    const uint32_t start = AscendC::GetBlockIdx() * tiling.perCore;
    length = tiling.totalLength - start < tiling.perCore ? tiling.totalLength - start : tiling.perCore;
    tile = tiling.tileLength;
    xGm.SetGlobalBuffer((__gm__ T*)x + start, length);
    yGm.SetGlobalBuffer((__gm__ T*)y + start, length);
    pipe.InitBuffer(inQueue, 2, tile * sizeof(T));
    pipe.InitBuffer(outQueue, 2, tile * sizeof(T));
    compute.Init(pipe, tile);
  }
  __aicore__ inline void Process() {
    for (uint32_t at = 0; at < length; at += tile) {
      const uint32_t count = length - at < tile ? length - at : tile;
      CopyIn(at, count);
      AscendC::LocalTensor<T> xLocal = inQueue.template DeQue<T>();
      AscendC::LocalTensor<T> yLocal = outQueue.template AllocTensor<T>();
      compute(yLocal, xLocal, count);
      outQueue.template EnQue<T>(yLocal);
      inQueue.FreeTensor(xLocal);
      CopyOut(at, count);
    }
  }
  Compute compute;

 private:
  __aicore__ inline void CopyIn(uint32_t at, uint32_t count) {
    AscendC::LocalTensor<T> xLocal = inQueue.template AllocTensor<T>();
    AscendC::DataCopyExtParams copy{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    AscendC::DataCopyPadExtParams<T> pad{false, 0, 0, 0};
    AscendC::DataCopyPad(xLocal, xGm[at], copy, pad);
    inQueue.EnQue(xLocal);
  }
  __aicore__ inline void CopyOut(uint32_t at, uint32_t count) {
    AscendC::LocalTensor<T> yLocal = outQueue.template DeQue<T>();
    AscendC::DataCopyExtParams copy{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0};
    AscendC::DataCopyPad(yGm[at], yLocal, copy);
    outQueue.FreeTensor(yLocal);
  }

  AscendC::TPipe pipe;
  AscendC::TQue<AscendC::QuePosition::VECIN, 2> inQueue;
  AscendC::TQue<AscendC::QuePosition::VECOUT, 2> outQueue;
  AscendC::GlobalTensor<T> xGm;
  AscendC::GlobalTensor<T> yGm;
  uint32_t length;
  uint32_t tile;
};
