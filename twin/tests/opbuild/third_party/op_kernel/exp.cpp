#include "elementwise.h"

using namespace AscendC;

struct ExpCompute {
  __aicore__ inline void Init(TPipe&, uint32_t) {}
  template <typename T>
  __aicore__ inline void operator()(LocalTensor<T>& y, LocalTensor<T>& x, uint32_t count) {
    Exp(y, x, count);
  }
};

extern "C" __global__ __aicore__ void exp(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<DTYPE_X, ExpCompute> op;
  op.Init(x, y, tiling_data);
  op.Process();
}

#ifndef ASCENDC_CPU_DEBUG
void exp_do(uint32_t blockDim, void* l2ctrl, void* stream, uint8_t* x, uint8_t* y, uint8_t* workspace,
            uint8_t* tiling) {
  exp<<<blockDim, l2ctrl, stream>>>(x, y, workspace, tiling);
}
#endif
