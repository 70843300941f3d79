#include "kernel_operator.h"

using namespace AscendC;

// Buffers without queues: each dependence is a flag.
class KernelLayerNorm {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t columns, float epsilon) {
    this->columns = columns;
    this->epsilon = epsilon;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    const uint32_t bytes = (columns * sizeof(float) + 31) / 32 * 32;
    pipe.InitBuffer(rowBuf, bytes);
    pipe.InitBuffer(squareBuf, bytes);
    pipe.InitBuffer(workBuf, bytes);
    pipe.InitBuffer(meanBuf, 32);
  }
  __aicore__ inline void Row(uint32_t row) {
    LocalTensor<float> values = rowBuf.Get<float>();
    LocalTensor<float> squares = squareBuf.Get<float>();
    LocalTensor<float> work = workBuf.Get<float>();
    LocalTensor<float> mean = meanBuf.Get<float>();
    DataCopyPad(values, xGm[row * columns], {1, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0},
                DataCopyPadExtParams<float>{false, 0, 0, 0});
    loaded.SetFlag(EVENT_ID1);
    loaded.WaitFlag(EVENT_ID1);
    ReduceSum(mean, values, work, columns);
    SetFlag<HardEvent::V_S>(EVENT_ID0);
    WaitFlag<HardEvent::V_S>(EVENT_ID0);
    const float average = mean.GetValue(0) / columns;
    SetFlag<HardEvent::S_V>(EVENT_ID4);
    WaitFlag<HardEvent::S_V>(EVENT_ID4);
    Adds(values, values, -average, columns);
    Mul(squares, values, values, columns);
    pipe_barrier(PIPE_V);
    ReduceSum(mean, squares, work, columns);
    Muls(mean, mean, 1.0f / columns, 1);
    Adds(mean, mean, epsilon, 1);
    Sqrt(mean, mean, 1);
    SetFlag<HardEvent::V_S>(EVENT_ID0);
    WaitFlag<HardEvent::V_S>(EVENT_ID0);
    Muls(values, values, 1.0f / mean.GetValue(0), columns);
    SetFlag<HardEvent::V_MTE3>(EVENT_ID2);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID2);
    DataCopyPad(yGm[row * columns], values, {1, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0});
    SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);
    WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);
    SetFlag<HardEvent::S_V>(EVENT_ID4);
    WaitFlag<HardEvent::S_V>(EVENT_ID4);
  }

 private:
  TPipe pipe;
  TQueSync<PIPE_MTE2, PIPE_V> loaded;
  TBuf<TPosition::VECCALC> rowBuf, squareBuf, workBuf, meanBuf;
  GlobalTensor<float> xGm, yGm;
  uint32_t columns;
  float epsilon;
};

extern "C" __global__ __aicore__ void layer_norm_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  KernelLayerNorm op;
  op.Init(x, y, tiling_data.columns, tiling_data.epsilon);
  for (uint32_t row = 0; row < tiling_data.rows; ++row) {
    op.Row(row);
  }
}
