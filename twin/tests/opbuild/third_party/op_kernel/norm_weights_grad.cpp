#include "kernel_operator.h"

using namespace AscendC;

class NormWeightsGradKernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR dy, GM_ADDR variance, GM_ADDR mean, GM_ADDR gamma, GM_ADDR dweights,
                              float epsilonIn, uint32_t tmpSize, const LayerNormGradTiling& gradTilingIn,
                              const LayerNormGradBetaTiling& betaTilingIn) {
    gradTiling = gradTilingIn;
    betaTiling = betaTilingIn;
    epsilon = epsilonIn;
    rows = gradTiling.bLength * gradTiling.sLength;
    columns = gradTiling.originalHLength;
    padded = gradTiling.hLength;
    xGm.SetGlobalBuffer((__gm__ float*)x, rows * columns);
    dyGm.SetGlobalBuffer((__gm__ float*)dy, rows * columns);
    varianceGm.SetGlobalBuffer((__gm__ float*)variance, rows);
    meanGm.SetGlobalBuffer((__gm__ float*)mean, rows);
    gammaGm.SetGlobalBuffer((__gm__ float*)gamma, columns);
    dweightsGm.SetGlobalBuffer((__gm__ float*)dweights, 2 * columns);
    const uint32_t blocks = (rows + 7) / 8 * 8;
    // x, dy, gamma, variance, mean: behind each other
    pipe.InitBuffer(inQueue, 1, (2 * rows * padded + padded + 2 * blocks) * sizeof(float));
    pipe.InitBuffer(outQueue, 1, 2 * padded * sizeof(float));
    pipe.InitBuffer(normedBuf, rows * padded * sizeof(float));
    pipe.InitBuffer(tmpBuf, tmpSize);
    dyAt = rows * padded;
    gammaAt = 2 * dyAt;
    varianceAt = gammaAt + padded;
    meanAt = varianceAt + blocks;
  }
  __aicore__ inline void Process() {
    LocalTensor<float> in = inQueue.AllocTensor<float>();
    Load(in, xGm, rows, columns);
    Load(in[dyAt], dyGm, rows, columns);
    Load(in[gammaAt], gammaGm, 1, columns);
    Load(in[varianceAt], varianceGm, 1, rows);
    Load(in[meanAt], meanGm, 1, rows);
    inQueue.EnQue(in);
    in = inQueue.DeQue<float>();
    LocalTensor<float> out = outQueue.AllocTensor<float>();
    LocalTensor<float> normed = normedBuf.Get<float>();
    LocalTensor<uint8_t> tmp = tmpBuf.Get<uint8_t>();
    // dx is not asked for: it may take the place of x
    LayerNormGrad<float>(in, normed, in[dyAt], in, in[varianceAt], in[meanAt], in[gammaAt], tmp, epsilon, gradTiling);
    LayerNormGradBeta<float>(out, out[padded], normed, in[dyAt], tmp, betaTiling);
    outQueue.EnQue(out);
    inQueue.FreeTensor(in);
    out = outQueue.DeQue<float>();
    DataCopyPad(dweightsGm, out, DataCopyExtParams{2, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0});
    outQueue.FreeTensor(out);
  }

 private:
  __aicore__ inline void Load(const LocalTensor<float>& to, GlobalTensor<float>& gm, uint32_t count, uint32_t width) {
    DataCopyPad(to, gm, DataCopyExtParams{static_cast<uint16_t>(count), static_cast<uint32_t>(width * 4), 0, 0, 0},
                DataCopyPadExtParams<float>{true, 0, static_cast<uint8_t>((width + 7) / 8 * 8 - width), 0.0f});
  }

  TPipe pipe;
  TQue<QuePosition::VECIN, 1> inQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  TBuf<TPosition::VECCALC> normedBuf, tmpBuf;
  GlobalTensor<float> xGm, dyGm, varianceGm, meanGm, gammaGm, dweightsGm;
  LayerNormGradTiling gradTiling;
  LayerNormGradBetaTiling betaTiling;
  float epsilon;
  uint32_t rows, columns, padded;
  uint32_t dyAt, gammaAt, varianceAt, meanAt;
};

extern "C" __global__ __aicore__ void norm_weights_grad(GM_ADDR x, GM_ADDR dy, GM_ADDR variance, GM_ADDR mean,
                                                        GM_ADDR gamma, GM_ADDR dweights, GM_ADDR workspace,
                                                        GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  NormWeightsGradKernel op;
  op.Init(x, dy, variance, mean, gamma, dweights, t.epsilon, t.tmpSize, t.gradTiling, t.betaTiling);
  op.Process();
}
