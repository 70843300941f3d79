#include "rows.h"

using namespace AscendC;

// Rows of whole repeats: a value of each block, then of each repeat of those, then of the row.
struct BlockMaxCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t) { pipe.InitBuffer(workBuf, 8192); }
  __aicore__ inline void operator()(LocalTensor<float>& y, LocalTensor<float>& x, uint32_t count) {
    LocalTensor<float> work = workBuf.Get<float>();
    const uint64_t all[2] = {~0ull, 0};
    BlockReduceMax<float>(work, x, count / 64, all, 1, 1, 8);
    WholeReduceMax<float>(work[1024], work, count / 8, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
    Adds(y, work[1024], 0.0f, 1);
  }
  TBuf<> workBuf;
};

extern "C" __global__ __aicore__ void block_max(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Rows<float, float, BlockMaxCompute> op;
  op.Init(x, y, tiling_data.rows, tiling_data.columns, 1);
  op.Process();
}
