#include "kernel_operator.h"

using namespace AscendC;

// All rows at once, each padded to whole blocks.
template <typename T>
class SoftmaxLibraryKernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t rowsIn, uint32_t columnsIn, uint32_t paddedIn,
                              uint32_t tmpSize, const SoftMaxTiling& tilingIn) {
    rows = rowsIn;
    columns = columnsIn;
    padded = paddedIn;
    tiling = tilingIn;
    xGm.SetGlobalBuffer((__gm__ T*)x, rows * columns);
    yGm.SetGlobalBuffer((__gm__ T*)y, rows * columns);
    pipe.InitBuffer(inQueue, 1, rows * padded * sizeof(T));
    pipe.InitBuffer(outQueue, 1, rows * padded * sizeof(T));
    pipe.InitBuffer(sumBuf, rows * 32);
    pipe.InitBuffer(maxBuf, rows * 32);
    pipe.InitBuffer(tmpBuf, tmpSize);
  }
  __aicore__ inline void Process() {
    LocalTensor<T> x = inQueue.template AllocTensor<T>();
    const uint16_t count = static_cast<uint16_t>(rows);
    const uint32_t bytes = columns * sizeof(T);
    DataCopyPad(x, xGm, DataCopyExtParams{count, bytes, 0, 0, 0},
                DataCopyPadExtParams<T>{true, 0, static_cast<uint8_t>(padded - columns), static_cast<T>(0)});
    inQueue.EnQue(x);
    x = inQueue.template DeQue<T>();
    LocalTensor<T> y = outQueue.template AllocTensor<T>();
    SoftMaxShapeInfo shape = {rows, padded, rows, columns};
    SoftMax<T>(y, sumBuf.Get<T>(), maxBuf.Get<T>(), x, tmpBuf.Get<uint8_t>(), tiling, shape);
    outQueue.EnQue(y);
    inQueue.FreeTensor(x);
    y = outQueue.template DeQue<T>();
    DataCopyPad(yGm, y, DataCopyExtParams{count, bytes, 0, 0, 0});
    outQueue.FreeTensor(y);
  }

 private:
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> inQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  TBuf<TPosition::VECCALC> sumBuf, maxBuf, tmpBuf;
  GlobalTensor<T> xGm, yGm;
  uint32_t rows;
  uint32_t columns;
  uint32_t padded;
  SoftMaxTiling tiling;
};

extern "C" __global__ __aicore__ void softmax_library(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  SoftmaxLibraryKernel<DTYPE_X> op;
  op.Init(x, y, tiling_data.rows, tiling_data.columns, tiling_data.padded, tiling_data.tmpSize,
          tiling_data.softmaxTilingData);
  op.Process();
}
