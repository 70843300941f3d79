#include "kernel_operator.h"

using namespace AscendC;

class KernelChooseRows {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR a, GM_ADDR b, GM_ADDR y, uint32_t rows, uint32_t columns,
                              TPipe& pipe) {
    this->rows = rows;
    this->columns = columns;
    repeats = (columns + 63) / 64 * 64;
    xGm.SetGlobalBuffer((__gm__ float*)x, rows * columns);
    aGm.SetGlobalBuffer((__gm__ float*)a, rows * columns);
    bGm.SetGlobalBuffer((__gm__ float*)b, rows * columns);
    yGm.SetGlobalBuffer((__gm__ float*)y, rows * columns);
    pipe.InitBuffer(xQueue, 2, repeats * sizeof(float));
    pipe.InitBuffer(aQueue, 2, repeats * sizeof(float));
    pipe.InitBuffer(bQueue, 2, repeats * sizeof(float));
    pipe.InitBuffer(yQueue, 2, repeats * sizeof(float));
    pipe.InitBuffer(bitsBuf, repeats / 8);
  }
  __aicore__ inline void Process() {
    for (uint32_t row = 0; row < rows; row++) {
      CopyIn(xQueue, xGm[row * columns]);
      CopyIn(aQueue, aGm[row * columns]);
      CopyIn(bQueue, bGm[row * columns]);
      Compute();
      LocalTensor<float> y = yQueue.DeQue<float>();
      DataCopy(yGm[row * columns], y, (columns + 7) / 8 * 8);
      yQueue.FreeTensor(y);
    }
  }

 private:
  __aicore__ inline void CopyIn(TQue<QuePosition::VECIN, 1>& queue, const GlobalTensor<float>& from) {
    LocalTensor<float> to = queue.AllocTensor<float>();
    DataCopyPad(to, from, DataCopyExtParams{1, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0},
                DataCopyPadExtParams<float>{false, 0, 0, 0});
    queue.EnQue(to);
  }
  __aicore__ inline void Compute() {
    LocalTensor<float> x = xQueue.DeQue<float>(), a = aQueue.DeQue<float>(), b = bQueue.DeQue<float>();
    LocalTensor<float> y = yQueue.AllocTensor<float>();
    LocalTensor<uint8_t> bits = bitsBuf.Get<uint8_t>();
    CompareScalar(bits, x, 0.0f, CMPMODE::GT, repeats);
    Select(y, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, repeats);
    Compare(bits, a, b, CMPMODE::GT, repeats);
    Select(y, bits, y, 0.5f, SELMODE::VSEL_TENSOR_SCALAR_MODE, columns);
    yQueue.EnQue(y);
    xQueue.FreeTensor(x);
    aQueue.FreeTensor(a);
    bQueue.FreeTensor(b);
  }

  GlobalTensor<float> xGm, aGm, bGm, yGm;
  TQue<QuePosition::VECIN, 1> xQueue, aQueue, bQueue;
  TQue<QuePosition::VECOUT, 1> yQueue;
  TBuf<QuePosition::VECCALC> bitsBuf;
  uint32_t rows, columns, repeats;
};

extern "C" __global__ __aicore__ void choose_rows(GM_ADDR x, GM_ADDR a, GM_ADDR b, GM_ADDR y, GM_ADDR workspace,
                                                  GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  TPipe pipe;
  KernelChooseRows op;
  op.Init(x, a, b, y, tiling_data.rows, tiling_data.columns, pipe);
  op.Process();
}
