// Gradients of HSTU attention. One pass recomputes the scores and sums dV, dK, dQ and the gradient of a bias of its own
// for every sequence and head; a second one sums the gradient of a shared bias.
#include "kernel_operator.h"
#include "lib/matmul_intf.h"

#include "bias_pass.h"
#include "gradient_pass.h"
#include "hstu_cube.h"

// Cells of the bias gradient outside every sequence, or masked, are zero: each core clears its share, then all meet.
template <typename T>
__aicore__ inline void ClearBias(const HstuTilingData& tiling, GM_ADDR bias, hstu::GradientStrips<T>& strips) {
  const int64_t rows = tiling.batch * tiling.heads * tiling.bias.size;
  const int64_t cores = AscendC::GetBlockNum() * AscendC::GetSubBlockNum();
  const int64_t share = (rows + cores - 1) / cores;
  const int64_t from = hstu::Least(AscendC::GetBlockIdx() * share, rows);
  hstu::Result<T> target;
  target.Init(bias, rows, 1, tiling.bias.size, tiling.stripElements);
  target.ZeroRows(from, hstu::Least(from + share, rows), strips.Out());
  AscendC::PipeBarrier<PIPE_ALL>();
  AscendC::SyncAll();
}

template <typename T, const MatmulConfig& CONFIG>
__aicore__ inline void RunHstuBackward(const hstu::BackwardInputs& inputs, GM_ADDR mask, GM_ADDR attnBias,
                                       const hstu::BackwardOutputs& outputs, GM_ADDR workspace,
                                       const HstuTilingData& tiling) {
  AscendC::TPipe pipe;
  hstu::GradientProducts<T, CONFIG> products;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products.scores, &tiling.scores, products.columnSums, &tiling.values,
                    products.rowSums, &tiling.gradients);
  products.Init(inputs, workspace, tiling);
  hstu::GradientStrips<T> strips;
  strips.Init(&pipe, tiling, mask, attnBias);
  if (outputs.bias != nullptr && tiling.sumsBias == 0) {
    ClearBias<T>(tiling, outputs.bias, strips);
  }
  hstu::GradientPass<T, CONFIG> pass;
  pass.Init(tiling, inputs, outputs, workspace, products, strips);
  pass.Process();
  if (outputs.bias != nullptr && tiling.sumsBias != 0) {
    // The next pass uses the workspace anew.
    AscendC::PipeBarrier<PIPE_ALL>();
    products.Part();
    hstu::BiasPass<T, CONFIG> bias;
    bias.Init(tiling, inputs, outputs, products, strips);
    bias.Process();
  }
}

extern "C" __global__ __aicore__ void hstu_dense_backward(GM_ADDR grad, GM_ADDR q, GM_ADDR k, GM_ADDR v, GM_ADDR mask,
                                                          GM_ADDR attn_bias, GM_ADDR seq_offset, GM_ADDR seq_offset_k,
                                                          GM_ADDR num_context, GM_ADDR num_target, GM_ADDR q_grad,
                                                          GM_ADDR k_grad, GM_ADDR v_grad, GM_ADDR attn_bias_grad,
                                                          GM_ADDR workspace, GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(HstuTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  const hstu::BackwardInputs inputs = {
      grad, q, k, v, {seq_offset, seq_offset_k, num_context, num_target, nullptr, nullptr, nullptr}};
  const hstu::BackwardOutputs outputs = {q_grad, k_grad, v_grad, attn_bias_grad};
  if (TILING_KEY_IS(0)) {
    RunHstuBackward<DTYPE_Q, NARROW_ROWS>(inputs, mask, attn_bias, outputs, user, tilingData);
  } else if (TILING_KEY_IS(1)) {
    RunHstuBackward<DTYPE_Q, WIDE_ROWS>(inputs, mask, attn_bias, outputs, user, tilingData);
  }
}
