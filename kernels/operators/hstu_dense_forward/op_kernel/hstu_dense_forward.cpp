// SiLU attention with a bias and a mask of the caller's; how: hstu_forward.h.
#include "hstu_forward.h"

#include "hstu_addends.h"

template <typename T, const MatmulConfig& CONFIG>
__aicore__ inline void RunHstuForward(const ForwardInputs& inputs, GM_ADDR mask, GM_ADDR bias, GM_ADDR output,
                                      GM_ADDR workspace, const HstuTilingData& tiling) {
  AscendC::TPipe pipe;
  HstuForward<T, CONFIG, hstu::Addends<T>> kernel;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.scores, &tiling.scores, kernel.values, &tiling.values);
  kernel.Init(&pipe, inputs, output, workspace, tiling, mask, bias);
  kernel.Process();
}

extern "C" __global__ __aicore__ void hstu_dense_forward(GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR mask,
                                                         GM_ADDR attn_bias, GM_ADDR seq_offset, GM_ADDR seq_offset_k,
                                                         GM_ADDR num_context, GM_ADDR num_target, GM_ADDR kv_cache,
                                                         GM_ADDR page_offsets, GM_ADDR page_ids, GM_ADDR last_page_len,
                                                         GM_ADDR faults, GM_ADDR attn_output, GM_ADDR faults_out,
                                                         GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(HstuTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  const ForwardInputs inputs = {
      q,
      k,
      v,
      kv_cache,
      {seq_offset, seq_offset_k, num_context, num_target, page_offsets, page_ids, last_page_len},
      faults_out,
      fault::HSTU_DENSE_FORWARD};
  if (TILING_KEY_IS(0)) {
    RunHstuForward<DTYPE_Q, NARROW_ROWS>(inputs, mask, attn_bias, attn_output, user, tilingData);
  } else if (TILING_KEY_IS(1)) {
    RunHstuForward<DTYPE_Q, WIDE_ROWS>(inputs, mask, attn_bias, attn_output, user, tilingData);
  }
}
