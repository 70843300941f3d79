#include "kernel_operator.h"

using namespace AscendC;

template <typename T>
class LayerNormGradLibraryKernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR dy, GM_ADDR variance, GM_ADDR mean, GM_ADDR gamma, GM_ADDR dx,
                              float epsilonIn, const LayerNormGradTiling& tilingIn) {
    tiling = tilingIn;
    epsilon = static_cast<T>(epsilonIn);
    rows = tiling.bLength * tiling.sLength;
    columns = tiling.originalHLength;
    padded = tiling.hLength;
    xGm.SetGlobalBuffer((__gm__ T*)x, rows * columns);
    dyGm.SetGlobalBuffer((__gm__ T*)dy, rows * columns);
    varianceGm.SetGlobalBuffer((__gm__ T*)variance, rows);
    meanGm.SetGlobalBuffer((__gm__ T*)mean, rows);
    gammaGm.SetGlobalBuffer((__gm__ T*)gamma, columns);
    dxGm.SetGlobalBuffer((__gm__ T*)dx, rows * columns);
    pipe.InitBuffer(xQueue, 1, rows * padded * sizeof(T));
    pipe.InitBuffer(dyQueue, 1, rows * padded * sizeof(T));
    pipe.InitBuffer(varianceQueue, 1, Whole(rows) * sizeof(T));
    pipe.InitBuffer(meanQueue, 1, Whole(rows) * sizeof(T));
    pipe.InitBuffer(gammaQueue, 1, padded * sizeof(T));
    pipe.InitBuffer(dxQueue, 1, rows * padded * sizeof(T));
    pipe.InitBuffer(normedBuf, rows * padded * sizeof(T));
  }
  __aicore__ inline void Process() {
    CopyIn(xQueue, xGm, rows, columns);
    CopyIn(dyQueue, dyGm, rows, columns);
    CopyIn(varianceQueue, varianceGm, 1, rows);
    CopyIn(meanQueue, meanGm, 1, rows);
    CopyIn(gammaQueue, gammaGm, 1, columns);
    LocalTensor<T> x = xQueue.template DeQue<T>();
    LocalTensor<T> dy = dyQueue.template DeQue<T>();
    LocalTensor<T> variance = varianceQueue.template DeQue<T>();
    LocalTensor<T> mean = meanQueue.template DeQue<T>();
    LocalTensor<T> gamma = gammaQueue.template DeQue<T>();
    LocalTensor<T> dx = dxQueue.template AllocTensor<T>();
    LayerNormGrad<T, false>(dx, normedBuf.Get<T>(), dy, x, variance, mean, gamma, epsilon, tiling, {DataFormat::ND});
    dxQueue.EnQue(dx);
    xQueue.FreeTensor(x);
    dyQueue.FreeTensor(dy);
    varianceQueue.FreeTensor(variance);
    meanQueue.FreeTensor(mean);
    gammaQueue.FreeTensor(gamma);
    dx = dxQueue.template DeQue<T>();
    DataCopyPad(dxGm, dx, DataCopyExtParams{static_cast<uint16_t>(rows), Bytes(columns), 0, 0, 0});
    dxQueue.FreeTensor(dx);
  }

 private:
  static __aicore__ inline uint32_t Bytes(uint32_t count) { return count * sizeof(T); }
  static __aicore__ inline uint32_t Whole(uint32_t count) {
    constexpr uint32_t block = 32 / sizeof(T);
    return (count + block - 1) / block * block;
  }
  __aicore__ inline void CopyIn(TQue<QuePosition::VECIN, 1>& queue, GlobalTensor<T>& gm, uint32_t count,
                                uint32_t width) {
    LocalTensor<T> t = queue.AllocTensor<T>();
    DataCopyPad(t, gm, DataCopyExtParams{static_cast<uint16_t>(count), Bytes(width), 0, 0, 0},
                DataCopyPadExtParams<T>{true, 0, static_cast<uint8_t>(Whole(width) - width), static_cast<T>(0)});
    queue.EnQue(t);
  }

  TPipe pipe;
  TQue<QuePosition::VECIN, 1> xQueue, dyQueue, varianceQueue, meanQueue, gammaQueue;
  TQue<QuePosition::VECOUT, 1> dxQueue;
  TBuf<TPosition::VECCALC> normedBuf;
  GlobalTensor<T> xGm, dyGm, varianceGm, meanGm, gammaGm, dxGm;
  LayerNormGradTiling tiling;
  T epsilon;
  uint32_t rows;
  uint32_t columns;
  uint32_t padded;
};

extern "C" __global__ __aicore__ void layer_norm_grad_library(GM_ADDR x, GM_ADDR dy, GM_ADDR variance, GM_ADDR mean,
                                                              GM_ADDR gamma, GM_ADDR dx, GM_ADDR workspace,
                                                              GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  LayerNormGradLibraryKernel<DTYPE_X> op;
  op.Init(x, dy, variance, mean, gamma, dx, t.epsilon, t.gradTiling);
  op.Process();
}
