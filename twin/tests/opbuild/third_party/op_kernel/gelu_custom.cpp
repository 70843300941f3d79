#include "elementwise.h"

using namespace AscendC;

// x * sigmoid(1.702 x)
struct GeluCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t tile) {
    pipe.InitBuffer(scratch, tile * sizeof(float));
    pipe.InitBuffer(ones, tile * sizeof(float));
  }
  __aicore__ inline void operator()(LocalTensor<float>& y, LocalTensor<float>& x, uint32_t count) {
    LocalTensor<float> e = scratch.Get<float>();
    LocalTensor<float> one = ones.Get<float>();
    Duplicate<float>(one, 1, static_cast<int32_t>(one.GetSize()));
    Muls(e, x, -1.702f, count);
    Exp(e, e, count);
    e = e + one;
    y = x / e;
  }
  TBuf<TPosition::VECCALC> scratch;
  TBuf<TPosition::VECCALC> ones;
};

extern "C" __global__ __aicore__ void gelu_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<float, GeluCompute> op;
  op.Init(x, y, tiling_data);
  op.Process();
}
