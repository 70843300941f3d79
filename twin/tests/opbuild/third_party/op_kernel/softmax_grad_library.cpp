#include "kernel_operator.h"

using namespace AscendC;

template <typename T>
class SoftmaxGradKernel {
 public:
  __aicore__ inline void Init(GM_ADDR y, GM_ADDR dy, GM_ADDR dx, uint32_t rowsIn, uint32_t columnsIn, uint32_t paddedIn,
                              uint32_t tmpSize, const SoftMaxTiling& tilingIn) {
    rows = rowsIn;
    columns = columnsIn;
    padded = paddedIn;
    tiling = tilingIn;
    yGm.SetGlobalBuffer((__gm__ T*)y, rows * columns);
    dyGm.SetGlobalBuffer((__gm__ T*)dy, rows * columns);
    dxGm.SetGlobalBuffer((__gm__ T*)dx, rows * columns);
    pipe.InitBuffer(yQueue, 1, rows * padded * sizeof(T));
    pipe.InitBuffer(dyQueue, 1, rows * padded * sizeof(T));
    pipe.InitBuffer(outQueue, 1, rows * padded * sizeof(T));
    pipe.InitBuffer(tmpBuf, tmpSize);
  }
  __aicore__ inline void Process() {
    CopyIn(yQueue, yGm);
    CopyIn(dyQueue, dyGm);
    LocalTensor<T> y = yQueue.template DeQue<T>();
    LocalTensor<T> dy = dyQueue.template DeQue<T>();
    LocalTensor<T> dx = outQueue.template AllocTensor<T>();
    SoftMaxShapeInfo shape = {rows, padded, rows, columns};
    SoftmaxGrad<T>(dx, dy, y, tmpBuf.Get<uint8_t>(), tiling, false, shape);
    outQueue.EnQue(dx);
    yQueue.FreeTensor(y);
    dyQueue.FreeTensor(dy);
    dx = outQueue.template DeQue<T>();
    DataCopyPad(dxGm, dx, DataCopyExtParams{static_cast<uint16_t>(rows), Bytes(), 0, 0, 0});
    outQueue.FreeTensor(dx);
  }

 private:
  __aicore__ inline uint32_t Bytes() { return columns * sizeof(T); }
  __aicore__ inline void CopyIn(TQue<QuePosition::VECIN, 1>& queue, GlobalTensor<T>& gm) {
    LocalTensor<T> t = queue.AllocTensor<T>();
    DataCopyPad(t, gm, DataCopyExtParams{static_cast<uint16_t>(rows), Bytes(), 0, 0, 0},
                DataCopyPadExtParams<T>{true, 0, static_cast<uint8_t>(padded - columns), static_cast<T>(0)});
    queue.EnQue(t);
  }

  TPipe pipe;
  TQue<QuePosition::VECIN, 1> yQueue, dyQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  TBuf<TPosition::VECCALC> tmpBuf;
  GlobalTensor<T> yGm, dyGm, dxGm;
  SoftMaxTiling tiling;
  uint32_t rows;
  uint32_t columns;
  uint32_t padded;
};

extern "C" __global__ __aicore__ void softmax_grad_library(GM_ADDR y, GM_ADDR dy, GM_ADDR dx, GM_ADDR workspace,
                                                           GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  SoftmaxGradKernel<DTYPE_Y> op;
  op.Init(y, dy, dx, t.rows, t.columns, t.padded, t.tmpSize, t.softmaxTilingData);
  op.Process();
}
