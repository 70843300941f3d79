#include "rows.h"

using namespace AscendC;

// The compiler puts the waits between vector and scalar unit: none stand here.
struct LogSumExpCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t whole) { pipe.InitBuffer(workBuf, whole * sizeof(float)); }
  __aicore__ inline void operator()(LocalTensor<float>& y, LocalTensor<float>& x, uint32_t count) {
    LocalTensor<float> work = workBuf.Get<float>();
    ReduceMax(work, x, work, count);
    float largest = work.GetValue(0);
    Adds(x, x, -largest, count);
    Exp(x, x, count);
    ReduceSum(work, x, work, count);
    Ln(work, work, 8);
    Adds(y, work, largest, 8);
  }
  TBuf<QuePosition::VECCALC> workBuf;
};

extern "C" __global__ __aicore__ void log_sum_exp(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Rows<float, float, LogSumExpCompute> op;
  op.Init(x, y, tiling_data.rows, tiling_data.columns, 1);
  op.Process();
}
