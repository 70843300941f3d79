#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void even_lanes(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  const uint32_t count = tiling_data.columns;
  const uint32_t repeats = (count + 63) / 64;
  TPipe pipe;
  TBuf<TPosition::VECCALC> inBuf, outBuf;
  pipe.InitBuffer(inBuf, repeats * 256);
  pipe.InitBuffer(outBuf, repeats * 256);
  GlobalTensor<float> xGm, yGm;
  xGm.SetGlobalBuffer((__gm__ float*)x, count);
  yGm.SetGlobalBuffer((__gm__ float*)y, (count + 1) / 2);
  LocalTensor<float> in = inBuf.Get<float>();
  LocalTensor<float> out = outBuf.Get<float>();
  DataCopyPad(in, xGm, {1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0},
              DataCopyPadExtParams<float>{false, 0, 0, 0});
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  uint64_t kept = 0;
  GatherMask(out, in, 1, false, 0, {1, static_cast<uint16_t>(repeats), 8, 0}, kept);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  if (kept >= (count + 1) / 2) {
    DataCopyPad(yGm, out, {1, static_cast<uint32_t>((count + 1) / 2 * sizeof(float)), 0, 0, 0});
  }
}
