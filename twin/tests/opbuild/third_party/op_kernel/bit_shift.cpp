#include "elementwise.h"

using namespace AscendC;

struct ShiftCompute {
  __aicore__ inline void Init(TPipe&, uint32_t) {}
  __aicore__ inline void operator()(LocalTensor<int32_t>& y, LocalTensor<int32_t>& x, uint32_t count) {
    ShiftLeft(x, x, left, count);
    ShiftRight(y, x, right, count);
  }
  int32_t left;
  int32_t right;
};

extern "C" __global__ __aicore__ void bit_shift(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<int32_t, ShiftCompute> op;
  op.compute.left = tiling_data.left;
  op.compute.right = tiling_data.right;
  op.Init(x, y, tiling_data);
  op.Process();
}
