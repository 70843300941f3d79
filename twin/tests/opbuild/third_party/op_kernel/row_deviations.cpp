#include "kernel_operator.h"

using namespace AscendC;

constexpr LayerNormConfig NO_WEIGHTS = {true, true, false};

template <typename T>
class RowDeviationsKernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR moments, float epsilonIn, uint32_t paddedIn,
                              const LayerNormSeparateTiling& tilingIn) {
    tiling = tilingIn;
    epsilon = epsilonIn;
    rows = tiling.aLength;
    columns = tiling.rLength;
    padded = paddedIn;
    blocks = (rows + 7) / 8 * 8;
    xGm.SetGlobalBuffer((__gm__ T*)x, (uint64_t)rows * columns);
    momentsGm.SetGlobalBuffer((__gm__ float*)moments, 2 * rows);
    pipe.InitBuffer(inQueue, 1, rows * padded * sizeof(T));
    pipe.InitBuffer(outQueue, 1, 2 * blocks * sizeof(float));
    pipe.InitBuffer(normedBuf, rows * padded * sizeof(T));
  }
  __aicore__ inline void Process() {
    LocalTensor<T> x = inQueue.template AllocTensor<T>();
    DataCopyPad(x, xGm,
                DataCopyExtParams{static_cast<uint16_t>(rows), static_cast<uint32_t>(columns * sizeof(T)), 0, 0, 0},
                DataCopyPadExtParams<T>{true, 0, static_cast<uint8_t>(padded - columns), static_cast<T>(0)});
    inQueue.EnQue(x);
    x = inQueue.template DeQue<T>();
    LocalTensor<float> out = outQueue.AllocTensor<float>();
    LocalTensor<float> none;
    LayerNormPara para = {rows, columns, padded};
    LayerNorm<float, T, false, NO_WEIGHTS>(normedBuf.Get<T>(), out, out[blocks], x, none, none, epsilon, para, tiling);
    inQueue.FreeTensor(x);
    outQueue.EnQue(out);
    out = outQueue.DeQue<float>();
    DataCopyPad(momentsGm, out, DataCopyExtParams{2, static_cast<uint32_t>(rows * sizeof(float)), 0, 0, 0});
    outQueue.FreeTensor(out);
  }

 private:
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> inQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  TBuf<TPosition::VECCALC> normedBuf;
  GlobalTensor<T> xGm;
  GlobalTensor<float> momentsGm;
  LayerNormSeparateTiling tiling;
  float epsilon;
  uint32_t rows;
  uint32_t columns;
  uint32_t padded;
  uint32_t blocks;
};

extern "C" __global__ __aicore__ void row_deviations(GM_ADDR x, GM_ADDR moments, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  RowDeviationsKernel<DTYPE_X> op;
  op.Init(x, moments, t.epsilon, t.padded, t.layernormTilingData);
  op.Process();
}
