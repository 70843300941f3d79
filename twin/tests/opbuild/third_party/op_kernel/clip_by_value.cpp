#include "elementwise.h"

using namespace AscendC;

template <typename T>
struct ClipCompute {
  __aicore__ inline void Init(TPipe&, uint32_t) {}
  __aicore__ inline void operator()(LocalTensor<T>& y, LocalTensor<T>& x, uint32_t count) {
    Maxs(y, x, lower, count);
    Mins(y, y, upper, count);
  }
  T lower;
  T upper;
};

extern "C" __global__ __aicore__ void clip_by_value(GM_ADDR x, GM_ADDR lower, GM_ADDR upper, GM_ADDR y,
                                                    GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  GlobalTensor<DTYPE_X> lowerGm;
  GlobalTensor<DTYPE_X> upperGm;
  lowerGm.SetGlobalBuffer((__gm__ DTYPE_X*)lower, 1);
  upperGm.SetGlobalBuffer((__gm__ DTYPE_X*)upper, 1);
  Elementwise<DTYPE_X, ClipCompute<DTYPE_X>> op;
  op.compute.lower = lowerGm.GetValue(0);
  op.compute.upper = upperGm(0);
  op.Init(x, y, tiling_data);
  op.Process();
}
