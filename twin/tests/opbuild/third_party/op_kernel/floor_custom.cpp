#include "elementwise.h"

using namespace AscendC;

// x - floor(x / 3) * 3: the remainder with the divisor's sign.
struct FloorCompute {
  __aicore__ inline void Init(TPipe&, uint32_t) {}
  __aicore__ inline void operator()(LocalTensor<float>& y, LocalTensor<float>& x, uint32_t count) {
    Muls(y, x, 1.0f / 3.0f, count);
    Cast(y, y, RoundMode::CAST_FLOOR, count);
    Axpy(x, y, -3.0f, count);
    DataCopy(y, x, (count + 7) / 8 * 8);
  }
};

extern "C" __global__ __aicore__ void floor_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<float, FloorCompute> op;
  op.Init(x, y, tiling_data);
  op.Process();
}
