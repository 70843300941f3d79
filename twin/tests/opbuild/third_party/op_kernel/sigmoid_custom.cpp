#include "elementwise.h"

using namespace AscendC;

struct SigmoidCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t tile) { pipe.InitBuffer(scratch, 2 * tile * sizeof(float)); }
  __aicore__ inline void operator()(LocalTensor<float>& y, LocalTensor<float>& x, uint32_t count) {
    LocalTensor<uint8_t> tmp = scratch.Get<uint8_t>();
    Sigmoid<float, false>(y, x, tmp, count);
  }
  TBuf<> scratch;
};

extern "C" __global__ __aicore__ void sigmoid_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<float, SigmoidCompute> op;
  op.Init(x, y, tiling_data);
  op.Process();
}
