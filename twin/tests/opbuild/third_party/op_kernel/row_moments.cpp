#include "kernel_operator.h"

using namespace AscendC;

constexpr WelfordUpdateConfig KEEP_TAIL = {true};

template <typename T>
class RowMomentsKernel {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR moments, uint32_t rowsIn, uint32_t columnsIn, uint32_t partIn,
                              uint32_t tmpSize) {
    rows = rowsIn;
    columns = columnsIn;
    part = partIn;
    xGm.SetGlobalBuffer((__gm__ T*)x, (uint64_t)rows * columns);
    momentsGm.SetGlobalBuffer((__gm__ float*)moments, rows * 2);
    pipe.InitBuffer(inQueue, 2, part * sizeof(T));
    pipe.InitBuffer(outQueue, 1, 64);
    pipe.InitBuffer(sumBuf, 2 * part * sizeof(float));
    pipe.InitBuffer(tmpBuf, tmpSize);
  }
  __aicore__ inline void Process() {
    for (uint32_t row = 0; row < rows; row++) {
      Row(row);
    }
  }

 private:
  __aicore__ inline void Row(uint32_t row) {
    LocalTensor<float> mean = sumBuf.Get<float>();
    LocalTensor<float> variance = mean[part];
    Duplicate(mean, 0.0f, 2 * part);
    uint32_t parts = 0;
    for (uint32_t at = 0; at < columns; at += part) {
      const uint32_t count = columns - at < part ? columns - at : part;
      CopyIn((uint64_t)row * columns + at, count);
      LocalTensor<T> x = inQueue.template DeQue<T>();
      WelfordUpdateParam para = {1, part, count, 1.0f / static_cast<float>(++parts)};
      WelfordUpdate<T, float, false, KEEP_TAIL>(mean, variance, mean, variance, x, tmpBuf.Get<uint8_t>(), para);
      inQueue.FreeTensor(x);
    }
    LocalTensor<float> out = outQueue.AllocTensor<float>();
    const uint32_t whole = columns / part, head = columns % part;
    WelfordFinalizePara end = {whole,
                               part,
                               whole + 1,
                               head,
                               whole,
                               head == 0 ? 0 : part - head,
                               1.0f / static_cast<float>(part),
                               1.0f / static_cast<float>(columns)};
    WelfordFinalize(out, out[8], mean, variance, tmpBuf.Get<uint8_t>(), end);
    outQueue.EnQue(out);
    out = outQueue.DeQue<float>();
    DataCopyPad(momentsGm[row * 2], out, DataCopyExtParams{2, sizeof(float), 0, 0, 0});
    outQueue.FreeTensor(out);
  }
  __aicore__ inline void CopyIn(uint64_t at, uint32_t count) {
    LocalTensor<T> x = inQueue.template AllocTensor<T>();
    DataCopyPad(x, xGm[at], DataCopyExtParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0},
                DataCopyPadExtParams<T>{false, 0, 0, static_cast<T>(0)});
    inQueue.EnQue(x);
  }

  TPipe pipe;
  TQue<QuePosition::VECIN, 2> inQueue;
  TQue<QuePosition::VECOUT, 1> outQueue;
  TBuf<TPosition::VECCALC> sumBuf, tmpBuf;
  GlobalTensor<T> xGm;
  GlobalTensor<float> momentsGm;
  uint32_t rows;
  uint32_t columns;
  uint32_t part;
};

extern "C" __global__ __aicore__ void row_moments(GM_ADDR x, GM_ADDR moments, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  RowMomentsKernel<DTYPE_X> op;
  op.Init(x, moments, t.rows, t.columns, t.part, t.tmpSize);
  op.Process();
}
