#include "kernel_operator.h"

using namespace AscendC;

class KernelRepeat {
 public:
  __aicore__ inline KernelRepeat() {}
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR repeats, GM_ADDR y, uint32_t rows, uint32_t columns, uint32_t total) {
    this->rows = rows;
    this->columns = columns;
    xGm.SetGlobalBuffer((__gm__ float*)x, (uint64_t)rows * columns);
    repeatsGm.SetGlobalBuffer((__gm__ int64_t*)repeats, rows);
    yGm.SetGlobalBuffer((__gm__ float*)y, (uint64_t)total * columns);
    pipe.InitBuffer(queue, 1, (columns * sizeof(float) + 31) / 32 * 32);
  }
  __aicore__ inline void Process() {
    uint64_t at = 0;
    for (uint32_t row = 0; row < rows; row++) {
      DataCopyExtParams params{1, static_cast<uint32_t>(columns * sizeof(float)), 0, 0, 0};
      LocalTensor<float> line = queue.AllocTensor<float>();
      DataCopyPad(line, xGm[(uint64_t)row * columns], params, DataCopyPadExtParams<float>{false, 0, 0, 0});
      queue.EnQue(line);
      line = queue.DeQue<float>();
      for (int64_t k = 0; k < repeatsGm.GetValue(row); k++, at += columns) {
        DataCopyPad(yGm[at], line, params);
      }
      queue.FreeTensor(line);
    }
  }

 private:
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  GlobalTensor<float> xGm, yGm;
  GlobalTensor<int64_t> repeatsGm;
  uint32_t rows, columns;
};

extern "C" __global__ __aicore__ void repeat_interleave_custom(GM_ADDR x, GM_ADDR repeats, GM_ADDR y, GM_ADDR workspace,
                                                               GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  KernelRepeat op;
  op.Init(x, repeats, y, tiling_data.rows, tiling_data.columns, tiling_data.total);
  op.Process();
}
