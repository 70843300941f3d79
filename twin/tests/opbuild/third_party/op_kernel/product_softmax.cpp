#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;
using namespace matmul;

class ProductSoftmaxKernel {
 public:
  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR y, const TCubeTiling& cube, const SoftMaxTiling& tilingIn,
                              uint32_t tmpSize, TPipe* pipe) {
    tiling = tilingIn;
    rows = cube.M;
    columns = cube.N;
    aGm.SetGlobalBuffer((__gm__ half*)a, rows * cube.Ka);
    bGm.SetGlobalBuffer((__gm__ half*)b, cube.Kb * columns);
    yGm.SetGlobalBuffer((__gm__ float*)y, rows * columns);
    pipe->InitBuffer(productQueue, 1, rows * columns * sizeof(float));
    pipe->InitBuffer(yQueue, 1, rows * columns * sizeof(float));
    pipe->InitBuffer(sumBuf, rows * 32);
    pipe->InitBuffer(maxBuf, rows * 32);
    pipe->InitBuffer(tmpBuf, tmpSize);
  }
  __aicore__ inline void Process() {
    LocalTensor<float> product = productQueue.AllocTensor<float>();
    mm.SetTensorA(aGm);
    mm.SetTensorB(bGm);
    mm.IterateAll(product);
    mm.End();
    productQueue.EnQue(product);
    product = productQueue.DeQue<float>();
    LocalTensor<float> y = yQueue.AllocTensor<float>();
    SoftMaxShapeInfo shape = {rows, columns, rows, columns};
    SoftMax<float, false, false, true>(y, sumBuf.Get<float>(), maxBuf.Get<float>(), product, tmpBuf.Get<uint8_t>(),
                                       tiling, shape);
    yQueue.EnQue(y);
    productQueue.FreeTensor(product);
    y = yQueue.DeQue<float>();
    const uint16_t blocks = 16 * sizeof(float) / 32;
    const DataCopyParams copy = {static_cast<uint16_t>(rows), blocks, 0,
                                 static_cast<uint16_t>(columns * sizeof(float) / 32 - blocks)};
    for (uint32_t column = 0; column < columns; column += 16) {
      DataCopy(yGm[column], y[column * rows], copy);
    }
    yQueue.FreeTensor(y);
  }
  Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
         MatmulType<TPosition::VECIN, CubeFormat::NZ, float>>
      mm;

 private:
  TQue<QuePosition::VECIN, 1> productQueue;
  TQue<QuePosition::VECOUT, 1> yQueue;
  TBuf<TPosition::VECCALC> sumBuf, maxBuf, tmpBuf;
  GlobalTensor<half> aGm, bGm;
  GlobalTensor<float> yGm;
  SoftMaxTiling tiling;
  uint32_t rows;
  uint32_t columns;
};

extern "C" __global__ __aicore__ void product_softmax(GM_ADDR a, GM_ADDR b, GM_ADDR y, GM_ADDR workspace,
                                                      GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
  ProductSoftmaxKernel op;
  TPipe pipe;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), op.mm, &t.cubeTilingData);
  op.Init(a, b, y, t.cubeTilingData, t.softmaxTilingData, t.tmpSize, &pipe);
  op.Process();
}
