#include "kernel_operator.h"

using namespace AscendC;

// x is [16, n], n a multiple of 16; a repeat turns a square of 16 by 16.
class TransposeBlocksKernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t columnsIn) {
    columns = columnsIn;
    xGm.SetGlobalBuffer((__gm__ half*)x, 16 * columns);
    yGm.SetGlobalBuffer((__gm__ half*)y, 16 * columns);
    pipe.InitBuffer(inQueue, 1, 16 * columns * sizeof(half));
    pipe.InitBuffer(outQueue, 1, 16 * columns * sizeof(half));
  }
  __aicore__ inline void Process() {
    LocalTensor<half> x = inQueue.AllocTensor<half>();
    DataCopy(x, xGm, 16 * columns);
    inQueue.EnQue(x);
    x = inQueue.DeQue<half>();
    LocalTensor<half> y = outQueue.AllocTensor<half>();
    uint64_t from[16];
    uint64_t to[16];
    for (int32_t i = 0; i < 16; i++) {
      from[i] = (uint64_t)x[i * columns].GetPhyAddr();
      to[i] = (uint64_t)y[i * 16].GetPhyAddr();
    }
    TransDataTo5HDParams params;
    params.repeatTimes = columns / 16;
    params.srcRepStride = params.repeatTimes == 1 ? 0 : 1;
    params.dstRepStride = params.repeatTimes == 1 ? 0 : 16;
    TransDataTo5HD<half>(to, from, params);
    outQueue.EnQue(y);
    inQueue.FreeTensor(x);
    y = outQueue.DeQue<half>();
    DataCopy(yGm, y, 16 * columns);
    outQueue.FreeTensor(y);
  }

 private:
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> inQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  GlobalTensor<half> xGm, yGm;
  uint32_t columns;
};

extern "C" __global__ __aicore__ void transpose_blocks(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  TransposeBlocksKernel op;
  op.Init(x, y, tiling_data.columns);
  op.Process();
}
