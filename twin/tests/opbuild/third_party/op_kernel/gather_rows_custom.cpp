#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void gather_rows_custom(GM_ADDR x, GM_ADDR indices, GM_ADDR y, GM_ADDR workspace,
                                                         GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 1, (t.columns * sizeof(DTYPE_X) + 31) / 32 * 32);
  GlobalTensor<DTYPE_X> xGm, yGm;
  GlobalTensor<DTYPE_INDICES> indicesGm;
  xGm.SetGlobalBuffer((__gm__ DTYPE_X*)x, (uint64_t)t.rows * t.columns);
  yGm.SetGlobalBuffer((__gm__ DTYPE_X*)y, (uint64_t)t.count * t.columns);
  indicesGm.SetGlobalBuffer((__gm__ DTYPE_INDICES*)indices, t.count);
  const DataCopyExtParams params{1, static_cast<uint32_t>(t.columns * sizeof(DTYPE_X)), 0, 0, 0};
  for (uint32_t i = 0; i < t.count; i++) {
    LocalTensor<DTYPE_X> row = queue.AllocTensor<DTYPE_X>();
    DataCopyPad(row, xGm[indicesGm.GetValue(i) * t.columns], params,
                DataCopyPadExtParams<DTYPE_X>{false, 0, 0, static_cast<DTYPE_X>(0)});
    queue.EnQue(row);
    row = queue.DeQue<DTYPE_X>();
    DataCopyPad(yGm[(uint64_t)i * t.columns], row, params);
    queue.FreeTensor(row);
  }
}
