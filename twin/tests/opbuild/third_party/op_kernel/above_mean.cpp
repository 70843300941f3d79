#include "kernel_operator.h"

using namespace AscendC;

// Whole blocks of a row by DataCopy of bool; its tail element by element, straight into global memory.
template <typename T>
class KernelAboveMean {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns, TPipe& pipe) {
    this->rows = rows;
    this->columns = columns ASSERT(columns != 0 && "a row has elements");
    xGm.SetGlobalBuffer((__gm__ T*)x, rows * columns);
    yGm.SetGlobalBuffer((__gm__ bool*)y, rows * columns);
    pipe.InitBuffer(sumBuf, 32);
    pipe.InitBuffer(outQueue, 1, TILE);
  }
  __aicore__ inline void Process() {
    LocalTensor<float> sum = sumBuf.Get<float>();
    for (uint32_t row = 0; row < rows; row++) {
      const uint64_t start = row * columns;
      sum(0) = 0;
      for (uint32_t i = 0; i < columns; i++) {
        sum(0) += static_cast<float>(xGm(start + i));
      }
      const auto total = sum(0);  // stays what it is
      sum(0) = -1;
      sum(1) = total / columns;
      uint32_t done = 0;
      while (start % 32 == 0 && columns - done >= 32) {
        const uint32_t count = min(columns - done, TILE) / 32 * 32;
        LocalTensor<bool> flags = outQueue.AllocTensor<bool>();
        for (uint32_t i = 0; i < count; i++) {
          flags(i) = static_cast<float>(xGm(start + done + i)) > sum(1);
        }
        outQueue.EnQue(flags);
        flags = outQueue.DeQue<bool>();
        DataCopy(yGm[start + done], flags, count);
        outQueue.FreeTensor(flags);
        done += count;
      }
      for (uint32_t i = done; i < columns; i++) {
        yGm(start + i) = static_cast<float>(xGm(start + i)) > sum(1);
      }
    }
    DataCacheCleanAndInvalid<bool, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(yGm);
  }

 private:
  static constexpr uint32_t TILE = 256;
  GlobalTensor<T> xGm;
  GlobalTensor<bool> yGm;
  TBuf<QuePosition::VECCALC> sumBuf;
  TQue<QuePosition::VECOUT, 1> outQueue;
  uint32_t rows;
  uint32_t columns;
};

extern "C" __global__ __aicore__ void above_mean(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  TPipe pipe;
  KernelAboveMean<DTYPE_X> op;
  op.Init(x, y, tiling_data.rows, tiling_data.columns, pipe);
  op.Process();
}
