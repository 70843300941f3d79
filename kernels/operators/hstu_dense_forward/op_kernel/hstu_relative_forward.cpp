// SiLU attention with a relative bias by position and time, from two tables and timestamps (hstu_relative.h).
#include "hstu_forward.h"

#include "hstu_relative.h"

template <typename T, const MatmulConfig& CONFIG>
__aicore__ inline void RunHstuRelative(const ForwardInputs& inputs, const hstu::RelativeInputs& relative,
                                       GM_ADDR output, GM_ADDR workspace, const HstuTilingData& tiling) {
  AscendC::TPipe pipe;
  HstuForward<T, CONFIG, hstu::RelativeBias<false>> kernel;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.scores, &tiling.scores, kernel.values, &tiling.values);
  AscendC::GlobalTensor<float> own;
  own.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace) + hstu::CorePlace(tiling, AscendC::GetBlockIdx()),
                      tiling.coreElements);
  kernel.Init(&pipe, inputs, output, workspace, tiling, relative, own);
  kernel.Process();
}

extern "C" __global__ __aicore__ void hstu_relative_forward(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR position,
                                                            GM_ADDR time, GM_ADDR times, GM_ADDR cells,
                                                            GM_ADDR seq_offset, GM_ADDR num_context, GM_ADDR num_target,
                                                            GM_ADDR faults, GM_ADDR attn_output, GM_ADDR faults_out,
                                                            GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(HstuTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  const ForwardInputs inputs = {q,
                                k,
                                v,
                                nullptr,
                                {seq_offset, nullptr, num_context, num_target, nullptr, nullptr, nullptr},
                                faults_out,
                                fault::HSTU_RELATIVE_FORWARD};
  const hstu::RelativeInputs relative = {position, time, times, cells};
  if (TILING_KEY_IS(0)) {
    RunHstuRelative<DTYPE_Q, NARROW_ROWS>(inputs, relative, attn_output, user, tilingData);
  } else if (TILING_KEY_IS(1)) {
    RunHstuRelative<DTYPE_Q, WIDE_ROWS>(inputs, relative, attn_output, user, tilingData);
  }
}
