#include "elementwise.h"

using namespace AscendC;

// x to the first exponent, plus x to the second.
struct PowCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t tile) { pipe.InitBuffer(secondBuf, tile * sizeof(float)); }
  __aicore__ inline void operator()(LocalTensor<float>& y, LocalTensor<float>& x, uint32_t count) {
    LocalTensor<float> second = secondBuf.Get<float>();
    Power<float, false>(y, x, exponents[0], count);
    Power<float, false>(second, x, exponents[1], count);
    Add(y, y, second, count);
  }
  const float* exponents;
  TBuf<> secondBuf;
};

extern "C" __global__ __aicore__ void pow_scalar(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<float, PowCompute> op;
  op.compute.exponents = tiling_data.exponents;
  op.Init(x, y, tiling_data);
  op.Process();
}
