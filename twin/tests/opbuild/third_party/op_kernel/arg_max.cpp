#include "rows.h"

using namespace AscendC;

struct ArgMaxCompute {
  __aicore__ inline void Init(TPipe& pipe, uint32_t whole) {
    pipe.InitBuffer(bestBuf, 32);
    pipe.InitBuffer(workBuf, whole * sizeof(float) + 256);
  }
  __aicore__ inline void operator()(LocalTensor<int32_t>& y, LocalTensor<float>& x, uint32_t count) {
    LocalTensor<float> best = bestBuf.Get<float>();
    LocalTensor<float> work = workBuf.Get<float>();
    ReduceMax<float>(best, x, work, count, true);
    event_t ready = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::V_S));
    SetFlag<HardEvent::V_S>(ready);
    WaitFlag<HardEvent::V_S>(ready);
    Duplicate(y, (int32_t)best.ReinterpretCast<uint32_t>().GetValue(1), 8);
  }
  TBuf<> bestBuf, workBuf;
};

extern "C" __global__ __aicore__ void arg_max(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  Rows<float, int32_t, ArgMaxCompute> op;
  op.Init(x, y, tiling_data.rows, tiling_data.columns, 1);
  op.Process();
}
