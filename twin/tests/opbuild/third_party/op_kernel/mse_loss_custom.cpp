#include "kernel_operator.h"

using namespace AscendC;

class KernelMseLoss {
 public:
  __aicore__ inline void Init(GM_ADDR predict, GM_ADDR label, GM_ADDR y, uint32_t count, float factor) {
    this->count = count;
    this->factor = factor;
    predictGm.SetGlobalBuffer((__gm__ float*)predict, count);
    labelGm.SetGlobalBuffer((__gm__ float*)label, count);
    yGm.SetGlobalBuffer((__gm__ float*)y, 1);
    pipe.InitBuffer(inQueue, 2, 2 * TILE * sizeof(float));
    pipe.InitBuffer(outQueue, 1, 32);
    pipe.InitBuffer(workBuf, TILE * sizeof(float));
    pipe.InitBuffer(partBuf, 32);
  }
  __aicore__ inline void Process() {
    LocalTensor<float> total = outQueue.AllocTensor<float>();
    LocalTensor<float> part = partBuf.Get<float>();
    LocalTensor<float> work = workBuf.Get<float>();
    Duplicate(total, 0.0f, 8);
    for (uint32_t at = 0; at < count; at += TILE) {
      const uint32_t length = count - at < TILE ? count - at : TILE;
      LocalTensor<float> in = inQueue.AllocTensor<float>();
      DataCopyExtParams copy{1, static_cast<uint32_t>(length * sizeof(float)), 0, 0, 0};
      DataCopyPadExtParams<float> pad{false, 0, 0, 0};
      DataCopyPad(in, predictGm[at], copy, pad);
      DataCopyPad(in[TILE], labelGm[at], copy, pad);
      inQueue.EnQue(in);
      in = inQueue.DeQue<float>();
      Sub(in, in, in[TILE], length);
      Mul(in, in, in, length);
      ReduceSum(part, in, work, length);
      Add(total, total, part, 1);
      inQueue.FreeTensor(in);
    }
    Muls(total, total, factor, 1);
    outQueue.EnQue(total);
    total = outQueue.DeQue<float>();
    DataCopyPad(yGm, total, {1, sizeof(float), 0, 0, 0});
    outQueue.FreeTensor(total);
  }

 private:
  static constexpr uint32_t TILE = 1024;
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> inQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  TBuf<QuePosition::VECCALC> workBuf, partBuf;
  GlobalTensor<float> predictGm, labelGm, yGm;
  uint32_t count;
  float factor;
};

extern "C" __global__ __aicore__ void mse_loss_custom(GM_ADDR predict, GM_ADDR label, GM_ADDR y, GM_ADDR workspace,
                                                      GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  KernelMseLoss op;
  op.Init(predict, label, y, tiling_data.totalLength, tiling_data.factor);
  op.Process();
}
