#include "elementwise.h"

using namespace AscendC;

struct ReciprocalSqrtCompute {
  __aicore__ inline void Init(TPipe&, uint32_t) {}
  __aicore__ inline void operator()(LocalTensor<float>& y, LocalTensor<float>& x, uint32_t count) {
    SetMaskCount();
    SetVectorMask<float, MaskMode::COUNTER>(0, count);
    Sqrt<float, false>(y, x, MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
    PipeBarrier<PIPE_V>();
    Reciprocal<float, false>(y, y, MASK_PLACEHOLDER, 1, {1, 1, 8, 8});
    SetMaskNorm();
    ResetMask();
  }
};

extern "C" __global__ __aicore__ void reciprocal_sqrt(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<float, ReciprocalSqrtCompute> op;
  op.Init(x, y, tiling_data);
  op.Process();
}
