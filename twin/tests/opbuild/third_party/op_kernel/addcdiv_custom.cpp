#include "kernel_operator.h"

using namespace AscendC;

class KernelAddcdiv {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR a, GM_ADDR b, GM_ADDR y, uint32_t start, uint32_t count,
                              uint32_t tile) {
    this->count = count;
    this->tile = tile;
    GM_ADDR addresses[4] = {x, a, b, y};
    for (int32_t i = 0; i < 4; ++i) {
      gm[i].SetGlobalBuffer((__gm__ bfloat16_t*)addresses[i] + start, count);
    }
    pipe.InitBuffer(inQueue, 2, 3 * tile * sizeof(bfloat16_t));
    pipe.InitBuffer(outQueue, 2, tile * sizeof(bfloat16_t));
    pipe.InitBuffer(wide, 3 * tile * sizeof(float));
  }
  __aicore__ inline void Process() {
    for (uint32_t at = 0; at < count; at += tile) {
      const uint32_t length = count - at < tile ? count - at : tile;
      DataCopyExtParams copy{1, static_cast<uint32_t>(length * sizeof(bfloat16_t)), 0, 0, 0};
      DataCopyPadExtParams<bfloat16_t> pad{true, 0, 0, bfloat16_t(0)};
      LocalTensor<bfloat16_t> in = inQueue.AllocTensor<bfloat16_t>();
      for (uint32_t i = 0; i < 3; ++i) {
        DataCopyPad(in[i * tile], gm[i][at], copy, pad);
      }
      inQueue.EnQue(in);
      in = inQueue.DeQue<bfloat16_t>();
      LocalTensor<bfloat16_t> out = outQueue.AllocTensor<bfloat16_t>();
      LocalTensor<float> f = wide.Get<float>();
      for (uint32_t i = 0; i < 3; ++i) {
        Cast(f[i * tile], in[i * tile], RoundMode::CAST_NONE, length);
      }
      Div(f[tile], f[tile], f[2 * tile], length);
      Muls(f[tile], f[tile], 0.5f, length);
      Add(f, f, f[tile], length);
      Cast(out, f, RoundMode::CAST_RINT, length);
      outQueue.EnQue(out);
      inQueue.FreeTensor(in);
      out = outQueue.DeQue<bfloat16_t>();
      DataCopyPad(gm[3][at], out, copy);
      outQueue.FreeTensor(out);
    }
  }

 private:
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> inQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  TBuf<QuePosition::VECCALC> wide;
  GlobalTensor<bfloat16_t> gm[4];
  uint32_t count;
  uint32_t tile;
};

extern "C" __global__ __aicore__ void addcdiv_custom(GM_ADDR x, GM_ADDR a, GM_ADDR b, GM_ADDR y, GM_ADDR workspace,
                                                     GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  KernelAddcdiv op;
  const uint32_t start = GetBlockIdx() * tiling_data.perCore;
  const uint32_t left = tiling_data.totalLength - start;
  op.Init(x, a, b, y, start, left < tiling_data.perCore ? left : tiling_data.perCore, tiling_data.tileLength);
  op.Process();
}
