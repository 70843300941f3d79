// Gradients of SiLU attention with a relative bias: of q, k, v in the pass of the dense operator, of the bias's two
// tables on the way.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

#include "gradient_pass.h"
#include "hstu_cube.h"
#include "relative_sums.h"

template <typename T, const MatmulConfig& CONFIG>
__aicore__ inline void RunHstuRelativeBackward(const hstu::BackwardInputs& inputs, const hstu::RelativeInputs& relative,
                                               const hstu::BackwardOutputs& outputs, GM_ADDR positionGrad,
                                               GM_ADDR timeGrad, GM_ADDR workspace, const HstuTilingData& tiling) {
  using Strips = hstu::GradientStrips<T, hstu::RelativeBias<true>>;
  AscendC::TPipe pipe;
  hstu::GradientProducts<T, CONFIG> products;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products.scores, &tiling.scores, products.columnSums, &tiling.values,
                    products.rowSums, &tiling.gradients);
  products.Init(inputs, workspace, tiling);
  AscendC::GlobalTensor<float> own;
  own.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace) + hstu::CorePlace(tiling, AscendC::GetBlockIdx()),
                      tiling.coreElements);
  Strips strips;
  strips.Init(&pipe, tiling, relative, own);
  hstu::GradientPass<T, CONFIG, Strips> pass;
  pass.Init(tiling, inputs, outputs, workspace, products, strips);
  pass.Process();
  hstu::RelativeSums sums;
  sums.Init(tiling, positionGrad, timeGrad, workspace, strips.AddendsOf().Table());
  sums.Process(strips.AddendsOf().TimeSums());
}

extern "C" __global__ __aicore__ void hstu_relative_backward(GM_ADDR grad, GM_ADDR q, GM_ADDR k, GM_ADDR v,
                                                             GM_ADDR position, GM_ADDR time, GM_ADDR times,
                                                             GM_ADDR cells, GM_ADDR seq_offset, GM_ADDR num_context,
                                                             GM_ADDR num_target, GM_ADDR q_grad, GM_ADDR k_grad,
                                                             GM_ADDR v_grad, GM_ADDR position_grad, GM_ADDR time_grad,
                                                             GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(HstuTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  const hstu::BackwardInputs inputs = {
      grad, q, k, v, {seq_offset, nullptr, num_context, num_target, nullptr, nullptr, nullptr}};
  const hstu::BackwardOutputs outputs = {q_grad, k_grad, v_grad, nullptr};
  const hstu::RelativeInputs relative = {position, time, times, cells};
  if (TILING_KEY_IS(0)) {
    RunHstuRelativeBackward<DTYPE_Q, NARROW_ROWS>(inputs, relative, outputs, position_grad, time_grad, user,
                                                  tilingData);
  } else if (TILING_KEY_IS(1)) {
    RunHstuRelativeBackward<DTYPE_Q, WIDE_ROWS>(inputs, relative, outputs, position_grad, time_grad, user, tilingData);
  }
}
