#include "kernel_operator.h"

using namespace AscendC;

// A tile whose first x is 0 is left as it is: nothing of it is stored.
class KernelAxpy {
 public:
  __aicore__ inline void Init(GM_ADDR y, GM_ADDR x, GM_ADDR yRef, uint32_t length, float alpha) {
    this->length = length;
    this->alpha = alpha;
    yGm.SetGlobalBuffer((__gm__ float*)y, length);
    xGm.SetGlobalBuffer((__gm__ float*)x, length);
    refGm.SetGlobalBuffer((__gm__ float*)yRef, length);
    pipe.InitBuffer(xQueue, 1, TILE * sizeof(float));
    pipe.InitBuffer(yQueue, 1, TILE * sizeof(float));
    pipe.InitBuffer(outQueue, 1, TILE * sizeof(float));
  }
  __aicore__ inline void Process() {
    for (uint32_t at = 0; at < length; at += TILE) {
      if (xGm.GetValue(at) != 0) {
        CopyIn(xQueue, xGm, at);
        CopyIn(yQueue, yGm, at);
        Compute(at);
      }
    }
  }

 private:
  static constexpr uint32_t TILE = 256;
  __aicore__ inline DataCopyExtParams Part(uint32_t at) {
    const uint32_t count = length - at < TILE ? length - at : TILE;
    return {1, static_cast<uint32_t>(count * sizeof(float)), 0, 0, 0};
  }
  __aicore__ inline void CopyIn(TQue<QuePosition::VECIN, 1>& queue, GlobalTensor<float>& gm, uint32_t at) {
    LocalTensor<float> t = queue.AllocTensor<float>();
    DataCopyPad(t, gm[at], Part(at), DataCopyPadExtParams<float>{false, 0, 0, 0});
    queue.EnQue(t);
  }
  __aicore__ inline void Compute(uint32_t at) {
    const uint32_t count = Part(at).blockLen / sizeof(float);
    LocalTensor<float> x = xQueue.DeQue<float>();
    LocalTensor<float> y = yQueue.DeQue<float>();
    LocalTensor<float> out = outQueue.AllocTensor<float>();
    Muls(out, x, alpha, count);
    Add(out, out, y, count);
    outQueue.EnQue(out);
    xQueue.FreeTensor(x);
    yQueue.FreeTensor(y);
    out = outQueue.DeQue<float>();
    DataCopyPad(refGm[at], out, Part(at));
    outQueue.FreeTensor(out);
  }

  TPipe pipe;
  TQue<QuePosition::VECIN, 1> xQueue, yQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  GlobalTensor<float> yGm, xGm, refGm;
  uint32_t length;
  float alpha;
};

extern "C" __global__ __aicore__ void axpy_in_place(GM_ADDR y, GM_ADDR x, GM_ADDR y_ref, GM_ADDR workspace,
                                                    GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  KernelAxpy op;
  op.Init(y, x, y_ref, t.length, t.alpha);
  op.Process();
}
