#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void one_hot_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  TPipe pipe;
  GlobalTensor<int32_t> xGm;
  GlobalTensor<float> yGm;
  xGm.SetGlobalBuffer((__gm__ int32_t*)x, tiling_data.count);
  yGm.SetGlobalBuffer((__gm__ float*)y, (uint64_t)tiling_data.count * tiling_data.depth);
  InitGlobalMemory(yGm, (uint64_t)tiling_data.count * tiling_data.depth, 0.0f);
  PipeBarrier<PIPE_ALL>();
  for (uint32_t i = 0; i < tiling_data.count; ++i) {
    const int32_t at = xGm.GetValue(i);
    if (at >= 0 && at < (int32_t)tiling_data.depth) {
      yGm.SetValue(i * tiling_data.depth + at, 1.0f);
    }
  }
}
