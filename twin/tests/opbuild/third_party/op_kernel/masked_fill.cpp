#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void masked_fill(GM_ADDR x, GM_ADDR mask, GM_ADDR y, GM_ADDR workspace,
                                                  GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  const uint32_t columns = tiling_data.columns;
  const uint32_t maskColumns = (columns + 31) / 32 * 32;
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> xQueue, maskQueue;
  TQue<QuePosition::VECOUT, 1> yQueue;
  TBuf<> scratch;
  pipe.InitBuffer(xQueue, 1, columns * sizeof(float));
  pipe.InitBuffer(maskQueue, 1, maskColumns);
  pipe.InitBuffer(yQueue, 1, columns * sizeof(float));
  pipe.InitBuffer(scratch, 2048);
  GlobalTensor<float> xGm, yGm;
  GlobalTensor<uint8_t> maskGm;
  xGm.SetGlobalBuffer((__gm__ float*)x);
  yGm.SetGlobalBuffer((__gm__ float*)y);
  maskGm.SetGlobalBuffer((__gm__ uint8_t*)mask);
  for (uint32_t row = 0; row < tiling_data.rows; ++row) {
    LocalTensor<float> values = xQueue.AllocTensor<float>();
    LocalTensor<uint8_t> bytes = maskQueue.AllocTensor<uint8_t>();
    DataCopy(values, xGm[row * columns], columns);
    const uint8_t right = static_cast<uint8_t>(maskColumns - columns);
    DataCopyPad(bytes, maskGm[row * columns], {1, columns, 0, 0, 0}, DataCopyPadExtParams<uint8_t>{true, 0, right, 0});
    xQueue.EnQue(values);
    maskQueue.EnQue(bytes);
    values = xQueue.DeQue<float>();
    bytes = maskQueue.DeQue<uint8_t>();
    LocalTensor<float> result = yQueue.AllocTensor<float>();
    SelectWithBytesMaskShapeInfo info;
    info.firstAxis = 1;
    info.srcLastAxis = columns;
    info.maskLastAxis = maskColumns;
    SelectWithBytesMask(result, values, tiling_data.epsilon, bytes, scratch.Get<uint8_t>(), info);
    yQueue.EnQue(result);
    xQueue.FreeTensor(values);
    maskQueue.FreeTensor(bytes);
    result = yQueue.DeQue<float>();
    DataCopy(yGm[row * columns], result, columns);
    yQueue.FreeTensor(result);
  }
}
