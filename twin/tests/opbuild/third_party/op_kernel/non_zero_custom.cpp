#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void non_zero_custom(GM_ADDR x, GM_ADDR y, GM_ADDR shape_out, GM_ADDR workspace,
                                                      GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  TPipe pipe;
  const uint64_t total = (uint64_t)tiling_data.rows * tiling_data.columns;
  GlobalTensor<float> xGm;
  GlobalTensor<int64_t> yGm;
  GlobalTensor<uint64_t> shapeGm;
  xGm.SetGlobalBuffer((__gm__ float*)x, total);
  yGm.SetGlobalBuffer((__gm__ int64_t*)y, total * 2);
  shapeGm.SetGlobalBuffer((__gm__ uint64_t*)shape_out, 3);
  uint64_t count = 0;
  for (uint64_t i = 0; i < total; i++) {
    if (xGm.GetValue(i) != 0) {
      yGm.SetValue(count * 2, i / tiling_data.columns);
      yGm.SetValue(count * 2 + 1, i % tiling_data.columns);
      count++;
    }
  }
  shapeGm.SetValue(0, 0x80000002);
  shapeGm.SetValue(1, count);
  shapeGm.SetValue(2, 2);
}
