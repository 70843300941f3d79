#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;
using namespace matmul;

class AttentionRowsKernel {
 public:
  __aicore__ inline void Init(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR y, const TCubeTiling& scoresTiling,
                              const TCubeTiling& valuesTiling, const SoftMaxTiling& tilingIn, uint32_t tmpSize,
                              TPipe* pipe) {
    tiling = tilingIn;
    rows = scoresTiling.M;
    columns = scoresTiling.N;
    qGm.SetGlobalBuffer((__gm__ half*)q, rows * scoresTiling.Ka);
    kGm.SetGlobalBuffer((__gm__ half*)k, scoresTiling.Kb * columns);
    vGm.SetGlobalBuffer((__gm__ half*)v, columns * valuesTiling.N);
    yGm.SetGlobalBuffer((__gm__ float*)y, rows * valuesTiling.N);
    pipe->InitBuffer(scoreQueue, 1, rows * columns * sizeof(float));
    pipe->InitBuffer(weightQueue, 1, rows * columns * sizeof(half));
    pipe->InitBuffer(softmaxBuf, rows * columns * sizeof(float));
    pipe->InitBuffer(sumBuf, rows * 32);
    pipe->InitBuffer(maxBuf, rows * 32);
    pipe->InitBuffer(tmpBuf, tmpSize);
  }
  __aicore__ inline void Process() {
    LocalTensor<float> product = scoreQueue.AllocTensor<float>();
    scores.SetTensorA(qGm);
    scores.SetTensorB(kGm);
    scores.IterateAll(product);
    scores.End();
    scoreQueue.EnQue(product);
    product = scoreQueue.DeQue<float>();
    LocalTensor<float> softmax = softmaxBuf.Get<float>();
    SoftMaxShapeInfo shape = {rows, columns, rows, columns};
    SoftMax<float, false, false, true>(softmax, sumBuf.Get<float>(), maxBuf.Get<float>(), product,
                                       tmpBuf.Get<uint8_t>(), tiling, shape);
    PipeBarrier<PIPE_V>();
    LocalTensor<half> weights = weightQueue.AllocTensor<half>();
    Cast(weights, softmax, RoundMode::CAST_RINT, rows * columns);
    scoreQueue.FreeTensor(product);
    weightQueue.EnQue(weights);
    weights = weightQueue.DeQue<half>();
    values.SetTensorA(weights);
    values.SetTensorB(vGm);
    values.IterateAll(yGm);
    values.End();
    weightQueue.FreeTensor(weights);
  }
  Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
         MatmulType<TPosition::VECIN, CubeFormat::NZ, float>>
      scores;
  Matmul<MatmulType<TPosition::VECOUT, CubeFormat::NZ, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
         MatmulType<TPosition::GM, CubeFormat::ND, float>>
      values;

 private:
  TQue<QuePosition::VECIN, 1> scoreQueue;
  TQue<QuePosition::VECOUT, 1> weightQueue;
  TBuf<TPosition::VECCALC> softmaxBuf, sumBuf, maxBuf, tmpBuf;
  GlobalTensor<half> qGm, kGm, vGm;
  GlobalTensor<float> yGm;
  SoftMaxTiling tiling;
  uint32_t rows;
  uint32_t columns;
};

extern "C" __global__ __aicore__ void attention_rows(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR y, GM_ADDR workspace,
                                                     GM_ADDR tiling) {
  GET_TILING_DATA(t, tiling);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
  AttentionRowsKernel op;
  TPipe pipe;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), op.scores, &t.scoresTiling, op.values, &t.valuesTiling);
  op.Init(q, k, v, y, t.scoresTiling, t.valuesTiling, t.softmaxTilingData, t.tmpSize, &pipe);
  op.Process();
}
