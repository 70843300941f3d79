#include "elementwise.h"

using namespace AscendC;

struct LogCompute {
  __aicore__ inline void Init(TPipe&, uint32_t) {}
  __aicore__ inline void operator()(LocalTensor<float32_t>& y, LocalTensor<float32_t>& x, uint32_t count) {
    if (!plain) {
      Muls(x, x, scale, count);
      Adds(x, x, shift, count);
    }
    Ln(y, x, count);
    Muls(y, y, factor, count);
  }
  float factor;
  float scale;
  float shift;
  bool plain;
};

extern "C" __global__ __aicore__ void log(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<float32_t, LogCompute> op;
  op.compute = {tiling_data.factor, tiling_data.scale, tiling_data.shift, tiling_data.plain};
  op.Init(x, y, tiling_data);
  op.Process();
}
