#include "rows.h"

using namespace AscendC;

// Sums of the whole repeats, then of what is left; in float.
template <typename T>
struct RowSumCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t whole) {
    pipe.InitBuffer(wideBuf, whole * sizeof(float));
    pipe.InitBuffer(sumBuf, 1024);
    pipe.InitBuffer(workBuf, 1024);
  }
  __aicore__ inline void operator()(LocalTensor<T>& y, LocalTensor<T>& x, uint32_t count) {
    LocalTensor<float> wide = wideBuf.Get<float>();
    LocalTensor<float> sums = sumBuf.Get<float>();
    LocalTensor<float> work = workBuf.Get<float>();
    if constexpr (sizeof(T) == 2) {
      Cast(wide, x, RoundMode::CAST_NONE, count);
    } else {
      Adds(wide, x, 0.0f, count);
    }
    const int32_t repeats = count / 64;
    const int32_t tail = count % 64;
    if (repeats > 0) {
      WholeReduceSum<float>(sums, wide, 64, repeats, 1, 1, 8);
    }
    if (tail > 0) {
      WholeReduceSum<float>(sums[repeats], wide[repeats * 64], tail, 1, 1, 1, 8);
    }
    ReduceSum<float>(sums, sums, work, repeats + (tail > 0 ? 1 : 0));
    if constexpr (sizeof(T) == 2) {
      Cast(y, sums, RoundMode::CAST_RINT, 1);
    } else {
      Adds(y, sums, 0.0f, 1);
    }
  }
  TBuf<> wideBuf, sumBuf, workBuf;
};

extern "C" __global__ __aicore__ void row_sum(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Rows<DTYPE_X, DTYPE_X, RowSumCompute<DTYPE_X>> op;
  op.Init(x, y, tiling_data.rows, tiling_data.columns, 1);
  op.Process();
}
