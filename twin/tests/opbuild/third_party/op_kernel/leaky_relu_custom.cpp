#include "elementwise.h"

using namespace AscendC;

template <typename T>
struct LeakyCompute {
  __aicore__ inline void Init(TPipe&, uint32_t) {}
  __aicore__ inline void operator()(LocalTensor<T>& y, LocalTensor<T>& x, uint32_t count) {
    LeakyRelu(y, x, static_cast<T>(slope), count);
  }
  float slope;
};

extern "C" __global__ __aicore__ void leaky_relu_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<DTYPE_X, LeakyCompute<DTYPE_X>> op;
  op.compute.slope = tiling_data.slope;
  op.Init(x, y, tiling_data);
  op.Process();
}
