// A row at a time: loaded, reduced or changed by `Compute`, and its result stored.
#pragma once
#include "kernel_operator.h"

template <typename T, typename R, typename Compute>
class Rows {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns, uint32_t results) {
    this->rows = rows;
    this->columns = columns;
    this->results = results;
    xGm.SetGlobalBuffer((__gm__ T*)x, (uint64_t)rows * columns);
    yGm.SetGlobalBuffer((__gm__ R*)y, (uint64_t)rows * results);
    const uint32_t whole = (columns * sizeof(T) + 255) / 256 * 256;
    pipe.InitBuffer(inQueue, 1, whole);
    pipe.InitBuffer(outQueue, 1, (results * sizeof(R) + 255) / 256 * 256);
    compute.Init(pipe, whole / sizeof(T));
  }
  __aicore__ inline void Process() {
    for (uint32_t row = 0; row < rows; row++) {
      AscendC::LocalTensor<T> x = inQueue.template AllocTensor<T>();
      AscendC::DataCopyExtParams in{1, static_cast<uint32_t>(columns * sizeof(T)), 0, 0, 0};
      AscendC::DataCopyPadExtParams<T> pad{false, 0, 0, static_cast<T>(0)};
      AscendC::DataCopyPad(x, xGm[row * columns], in, pad);
      inQueue.EnQue(x);
      x = inQueue.template DeQue<T>();
      AscendC::LocalTensor<R> y = outQueue.template AllocTensor<R>();
      compute(y, x, columns);
      outQueue.EnQue(y);
      inQueue.FreeTensor(x);
      y = outQueue.template DeQue<R>();
      AscendC::DataCopyExtParams out{1, static_cast<uint32_t>(results * sizeof(R)), 0, 0, 0};
      AscendC::DataCopyPad(yGm[row * results], y, out);
      outQueue.FreeTensor(y);
    }
  }
  Compute compute;

 private:
  AscendC::TPipe pipe;
  AscendC::TQue<AscendC::QuePosition::VECIN, 1> inQueue;
  AscendC::TQue<AscendC::QuePosition::VECOUT, 1> outQueue;
  AscendC::GlobalTensor<T> xGm;
  AscendC::GlobalTensor<R> yGm;
  uint32_t rows;
  uint32_t columns;
  uint32_t results;
};
