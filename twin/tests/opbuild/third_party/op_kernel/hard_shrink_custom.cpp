#include "elementwise.h"

using namespace AscendC;

// One repeat after the other: what Compare finds stays in the register for the Select behind it.
template <typename T>
struct HardShrinkCompute {
  static constexpr uint32_t LANES = 256 / sizeof(T);
  __aicore__ inline void Init(TPipe& pipe, uint32_t) {
    pipe.InitBuffer(sizeBuf, 256);
    pipe.InitBuffer(limitBuf, 256);
    pipe.InitBuffer(zeroBuf, 256);
    Duplicate(limitBuf.Get<T>(), static_cast<T>(lambd), LANES);
    Duplicate(zeroBuf.Get<T>(), static_cast<T>(0), LANES);
  }
  __aicore__ inline void operator()(LocalTensor<T>& y, LocalTensor<T>& x, uint32_t count) {
    LocalTensor<T> size = sizeBuf.Get<T>();
    LocalTensor<T> limit = limitBuf.Get<T>();
    LocalTensor<T> zero = zeroBuf.Get<T>();
    const BinaryRepeatParams params(1, 1, 1, 8, 8, 8);
    for (uint32_t at = 0; at < count; at += LANES) {
      const uint64_t mask = count - at < LANES ? count - at : LANES;
      Abs(size, x[at], (int32_t)mask);
      Compare(size, limit, CMPMODE::GT, mask, params);
      PipeBarrier<PIPE_V>();
      SetVectorMask<T>((int32_t)mask);
      Select<T, SELMODE::VSEL_CMPMASK_SPR>(y[at], x[at], zero, 1, params);
      ResetMask();
    }
  }
  float lambd;
  TBuf<> sizeBuf, limitBuf, zeroBuf;
};

extern "C" __global__ __aicore__ void hard_shrink_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Elementwise<DTYPE_X, HardShrinkCompute<DTYPE_X>> op;
  op.compute.lambd = tiling_data.lambd;
  op.Init(x, y, tiling_data);
  op.Process();
}
