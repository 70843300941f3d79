#include "kernel_operator.h"

using namespace AscendC;

class RmsNormLibraryKernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR gamma, GM_ADDR y, float epsilonIn, const RmsNormTiling& tilingIn) {
    tiling = tilingIn;
    epsilon = epsilonIn;
    rows = tiling.bLength * tiling.sLength;
    columns = tiling.originalHLength;
    padded = tiling.hLength;
    xGm.SetGlobalBuffer((__gm__ float*)x, rows * columns);
    gammaGm.SetGlobalBuffer((__gm__ float*)gamma, columns);
    yGm.SetGlobalBuffer((__gm__ float*)y, rows * columns);
    pipe.InitBuffer(inQueue, 1, rows * padded * sizeof(float));
    pipe.InitBuffer(gammaQueue, 1, padded * sizeof(float));
    pipe.InitBuffer(outQueue, 1, rows * padded * sizeof(float));
  }
  __aicore__ inline void Process() {
    CopyIn(inQueue, xGm, rows);
    CopyIn(gammaQueue, gammaGm, 1);
    LocalTensor<float> x = inQueue.DeQue<float>();
    LocalTensor<float> gamma = gammaQueue.DeQue<float>();
    LocalTensor<float> y = outQueue.AllocTensor<float>();
    RmsNorm<float, false>(y, x, gamma, epsilon, tiling);
    outQueue.EnQue(y);
    inQueue.FreeTensor(x);
    gammaQueue.FreeTensor(gamma);
    y = outQueue.DeQue<float>();
    DataCopyPad(yGm, y, DataCopyExtParams{static_cast<uint16_t>(rows), columns * 4, 0, 0, 0});
    outQueue.FreeTensor(y);
  }

 private:
  __aicore__ inline void CopyIn(TQue<QuePosition::VECIN, 1>& queue, GlobalTensor<float>& gm, uint32_t count) {
    LocalTensor<float> t = queue.AllocTensor<float>();
    DataCopyPad(t, gm, DataCopyExtParams{static_cast<uint16_t>(count), columns * 4, 0, 0, 0},
                DataCopyPadExtParams<float>{true, 0, static_cast<uint8_t>(padded - columns), 0.0f});
    queue.EnQue(t);
  }

  TPipe pipe;
  TQue<QuePosition::VECIN, 1> inQueue, gammaQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  GlobalTensor<float> xGm, gammaGm, yGm;
  RmsNormTiling tiling;
  float epsilon;
  uint32_t rows;
  uint32_t columns;
  uint32_t padded;
};

extern "C" __global__ __aicore__ void rms_norm_library(GM_ADDR x, GM_ADDR gamma, GM_ADDR y, GM_ADDR workspace,
                                                       GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  RmsNormLibraryKernel op;
  op.Init(x, gamma, y, tiling_data.epsilon, tiling_data.rmsnormTilingData);
  op.Process();
}
