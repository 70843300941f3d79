#include "kernel_operator.h"
#include "lib/matmul_intf.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void matmul_plain(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(tiling_data, tiling);
  using Half = matmul::MatmulType<TPosition::GM, CubeFormat::ND, half>;
  using Float = matmul::MatmulType<TPosition::GM, CubeFormat::ND, float>;
  matmul::Matmul<Half, Half, Float> product;
  TPipe pipe;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), product, &tiling_data.cubeTilingData);
  if (GetBlockIdx() >= GetBlockNum()) {
    return;  // the cube core's second vector core
  }
  GlobalTensor<half> aGm, bGm;
  GlobalTensor<float> cGm;
  aGm.SetGlobalBuffer((__gm__ half*)a);
  bGm.SetGlobalBuffer((__gm__ half*)b);
  cGm.SetGlobalBuffer((__gm__ float*)c);
  product.SetTensorA(aGm);
  product.SetTensorB(bGm);
  product.IterateAll(cGm);
  product.End();
}
