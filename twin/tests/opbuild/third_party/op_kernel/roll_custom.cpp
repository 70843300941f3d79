#include "kernel_operator.h"

using namespace AscendC;

__aicore__ inline void Move(GlobalTensor<float>& to, uint32_t start, GlobalTensor<float>& from, uint32_t first,
                            uint32_t count, TQueBind<TPosition::VECIN, TPosition::VECOUT, 1>& queue) {
  if (count == 0) {
    return;
  }
  DataCopyExtParams params{1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0};
  LocalTensor<float> part = queue.AllocTensor<float>();
  DataCopyPad(part, from[first], params, DataCopyPadExtParams<float>{false, 0, 0, 0});
  queue.EnQue(part);
  part = queue.DeQue<float>();
  DataCopyPad(to[start], part, params);
  queue.FreeTensor(part);
}

extern "C" __global__ __aicore__ void roll_custom(GM_ADDR x, GM_ADDR shift, GM_ADDR y, GM_ADDR workspace,
                                                  GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 1, (t.length * sizeof(float) + 31) / 32 * 32);
  GlobalTensor<float> xGm, yGm;
  xGm.SetGlobalBuffer((__gm__ float*)x, t.length);
  yGm.SetGlobalBuffer((__gm__ float*)y, t.length);
  Move(yGm, t.shift, xGm, 0, t.length - t.shift, queue);
  Move(yGm, 0, xGm, t.length - t.shift, t.shift, queue);
}
