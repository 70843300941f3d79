#include <type_traits>

#include "kernel_operator.h"

constexpr int32_t BUFFER_NUM = 2;

template <typename T>
class KernelSub {
 public:
  __aicore__ inline KernelSub(AscendC::TPipe* pipeIn) : pipe(pipeIn) {}
  __aicore__ inline void Init(GM_ADDR x1, GM_ADDR x2, GM_ADDR y, uint32_t start, uint32_t count, uint32_t tile) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, half>, "float or half");
    this->count = count;
    this->tile = tile;
    x1Gm.SetGlobalBuffer((__gm__ T*)x1 + start, count);
    x2Gm.SetGlobalBuffer((__gm__ T*)x2 + start, count);
    yGm.SetGlobalBuffer((__gm__ T*)y + start, count);
    pipe->InitBuffer(x1Queue, BUFFER_NUM, tile * sizeof(T));
    pipe->InitBuffer(x2Queue, BUFFER_NUM, tile * sizeof(T));
    pipe->InitBuffer(yQueue, BUFFER_NUM, tile * sizeof(T));
  }
  __aicore__ inline void Process() {
    const uint32_t tiles = AscendC::CeilDivision(count, tile);
    for (uint32_t i = 0; i < tiles; i++) {
      const uint32_t length = i + 1 == tiles ? count - i * tile : tile;
      AscendC::DataCopyParams copy{1, static_cast<uint16_t>(length * sizeof(T)), 0, 0};
      AscendC::DataCopyPadParams pad{false, 0, 0, 0};
      AscendC::LocalTensor<T> x1 = x1Queue.template AllocTensor<T>();
      AscendC::LocalTensor<T> x2 = x2Queue.template AllocTensor<T>();
      AscendC::DataCopyPad(x1, x1Gm[i * tile], copy, pad);
      AscendC::DataCopyPad(x2, x2Gm[i * tile], copy, pad);
      x1Queue.EnQue(x1);
      x2Queue.EnQue(x2);
      x1 = x1Queue.template DeQue<T>();
      x2 = x2Queue.template DeQue<T>();
      AscendC::LocalTensor<T> y = yQueue.template AllocTensor<T>();
      AscendC::Sub(y, x1, x2, length);
      yQueue.EnQue(y);
      x1Queue.FreeTensor(x1);
      x2Queue.FreeTensor(x2);
      y = yQueue.template DeQue<T>();
      AscendC::DataCopyPad(yGm[i * tile], y, copy);
      yQueue.FreeTensor(y);
    }
  }

 private:
  AscendC::TPipe* pipe;
  AscendC::TQue<AscendC::TPosition::VECIN, BUFFER_NUM> x1Queue, x2Queue;
  AscendC::TQue<AscendC::TPosition::VECOUT, BUFFER_NUM> yQueue;
  AscendC::GlobalTensor<T> x1Gm, x2Gm, yGm;
  uint32_t count;
  uint32_t tile;
};

extern "C" __global__ __aicore__ void sub_custom(GM_ADDR x1, GM_ADDR x2, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  AscendC::TPipe pipe;
  KernelSub<DTYPE_Y> op(&pipe);
  const uint32_t start = AscendC::GetBlockIdx() * tiling_data.perCore;
  const uint32_t left = tiling_data.totalLength - start;
  op.Init(x1, x2, y, start, left < tiling_data.perCore ? left : tiling_data.perCore, tiling_data.tileLength);
  op.Process();
}
