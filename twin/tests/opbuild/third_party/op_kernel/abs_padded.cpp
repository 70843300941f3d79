#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void abs_padded(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  using T = DTYPE_X;
  // Rounded up: the last block of input and output begins inside the tensor and ends behind it.
  const uint32_t length = (tiling_data.totalLength * sizeof(T) + 31) / 32 * 32 / sizeof(T);
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> inQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  pipe.InitBuffer(inQueue, 1, length * sizeof(T));
  pipe.InitBuffer(outQueue, 1, length * sizeof(T));
  GlobalTensor<T> xGm, yGm;
  xGm.SetGlobalBuffer((__gm__ T*)x, tiling_data.totalLength);
  yGm.SetGlobalBuffer((__gm__ T*)y, tiling_data.totalLength);
  LocalTensor<T> in = inQueue.AllocTensor<T>();
  DataCopy(in, xGm, length);
  inQueue.EnQue(in);
  in = inQueue.DeQue<T>();
  LocalTensor<T> out = outQueue.AllocTensor<T>();
  Abs(out, in, length);
  outQueue.EnQue(out);
  out = outQueue.DeQue<T>();
  DataCopy(yGm, out, length);
  outQueue.FreeTensor(out);
  inQueue.FreeTensor(in);
}
