#include "rows.h"

using namespace AscendC;

template <typename T>
struct SoftmaxCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t whole) {
    pipe.InitBuffer(wideBuf, whole * sizeof(float));
    pipe.InitBuffer(workBuf, whole * sizeof(float));
    pipe.InitBuffer(oneBuf, 32);
  }
  __aicore__ inline float Value(const LocalTensor<float>& t) {
    set_flag(PIPE_V, PIPE_S, EVENT_ID0);
    wait_flag(PIPE_V, PIPE_S, EVENT_ID0);
    return t.GetValue(0);
  }
  __aicore__ inline void operator()(LocalTensor<T>& y, LocalTensor<T>& x, uint32_t count) {
    LocalTensor<float> wide = wideBuf.Get<float>();
    LocalTensor<float> work = workBuf.Get<float>();
    LocalTensor<float> one = oneBuf.Get<float>();
    if constexpr (sizeof(T) == 2) {
      Cast(wide, x, RoundMode::CAST_NONE, count);
    } else {
      Adds(wide, x, 0.0f, count);
    }
    ReduceMax(one, wide, work, (int32_t)count);
    const float largest = Value(one);
    Adds(wide, wide, -largest, count);
    Exp(wide, wide, count);
    ReduceSum(one, wide, work, count);
    const float sum = Value(one);
    Muls(wide, wide, 1.0f / sum, count);
    if constexpr (sizeof(T) == 2) {
      Cast(y, wide, RoundMode::CAST_RINT, count);
    } else {
      Adds(y, wide, 0.0f, count);
    }
  }
  TBuf<> wideBuf, workBuf, oneBuf;
};

extern "C" __global__ __aicore__ void softmax_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Rows<DTYPE_X, DTYPE_X, SoftmaxCompute<DTYPE_X>> op;
  op.Init(x, y, tiling_data.rows, tiling_data.columns, tiling_data.columns);
  op.Process();
}
