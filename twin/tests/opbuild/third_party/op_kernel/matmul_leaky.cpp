#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;
using namespace matmul;

class MatmulLeakyKernel {
 public:
  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR c, const TCubeTiling& tilingIn, float slopeIn,
                              TPipe* pipe) {
    tiling = tilingIn;
    slope = slopeIn;
    aGm.SetGlobalBuffer((__gm__ half*)a, tiling.M * tiling.Ka);
    bGm.SetGlobalBuffer((__gm__ half*)b, tiling.Kb * tiling.N);
    cGm.SetGlobalBuffer((__gm__ float*)c, tiling.M * tiling.N);
    pipe->InitBuffer(outQueue, 1, tiling.baseM * tiling.baseN * sizeof(float));
  }
  __aicore__ inline void Process() {
    matmulObj.SetTensorA(aGm);
    matmulObj.SetTensorB(bGm);
    uint32_t round = 0;
    while (matmulObj.template Iterate<true>()) {
      LocalTensor<float> tile = outQueue.AllocTensor<float>();
      matmulObj.template GetTensorC<true>(tile, false, true);
      LeakyRelu(tile, tile, slope, tiling.baseM * tiling.baseN);
      outQueue.EnQue(tile);
      CopyOut(round++);
    }
    matmulObj.End();
  }
  Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>, MatmulType<TPosition::GM, CubeFormat::ND, half>,
         MatmulType<TPosition::VECIN, CubeFormat::ND, float>>
      matmulObj;

 private:
  __aicore__ inline void CopyOut(uint32_t round) {
    LocalTensor<float> tile = outQueue.DeQue<float>();
    const uint32_t down = tiling.singleCoreM / tiling.baseM;
    const uint32_t start = round % down * tiling.baseM * tiling.N + round / down * tiling.baseN;
    DataCopyParams copy = {static_cast<uint16_t>(tiling.baseM),
                           static_cast<uint16_t>(tiling.baseN * sizeof(float) / DEFAULT_C0_SIZE), 0,
                           static_cast<uint16_t>((tiling.N - tiling.baseN) * sizeof(float) / DEFAULT_C0_SIZE)};
    DataCopy(cGm[start], tile, copy);
    outQueue.FreeTensor(tile);
  }

  TCubeTiling tiling;
  float slope;
  TQue<QuePosition::VECOUT, 1> outQueue;
  GlobalTensor<half> aGm, bGm;
  GlobalTensor<float> cGm;
};

extern "C" __global__ __aicore__ void matmul_leaky(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
  MatmulLeakyKernel op;
  TPipe pipe;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), op.matmulObj, &tiling_data.cubeTilingData);
  op.Init(a, b, c, tiling_data.cubeTilingData, tiling_data.slope, &pipe);
  op.Process();
}
