// Backward pass of an embedding lookup with the optimizer in it: contributions are sorted by row, summed, and every
// row that occurs is updated once, in place. No table is scanned and nothing is added atomically: results are the same
// on every run and for any number of cores.
#include "kernel_operator.h"

#include "contribution_keys.h"
#include "radix_sort.h"
#include "row_updates.h"

__aicore__ inline uint32_t BitsOf(int64_t value) {
  uint32_t bits = 1;
  while (bits < 63 && (value >> bits) != 0) {
    ++bits;
  }
  return bits;
}

template <typename T>
__aicore__ inline void RunBackward(const BackwardArguments& in, GM_ADDR workspace,
                                   const BackwardCodegenAdagradUnweightedExactTilingData& tiling) {
  const int64_t first = embedding::Smaller(tiling.indexCount, AscendC::GetBlockIdx() * tiling.chunk);
  const int64_t end = embedding::Smaller(tiling.indexCount, first + tiling.chunk);
  const int64_t recordBytes = embedding::CeilTo(tiling.indexCount * RECORD_BYTES, 512);
  const int64_t countBytes = AscendC::GetBlockNum() * static_cast<int64_t>(COUNT_BYTES);
  AscendC::GlobalTensor<uint32_t> records;
  AscendC::GlobalTensor<uint32_t> scratch;
  const uint64_t words = static_cast<uint64_t>(tiling.indexCount) * RECORD_WORDS;
  records.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(workspace), words);
  scratch.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(workspace + recordBytes), words);

  AscendC::TPipe pipe;
  RadixSort sort;
  sort.Init(&pipe, workspace + 2 * recordBytes, first, end);
  ContributionKeys keys;
  keys.Init(&pipe, in, tiling);
  const bool loaded = keys.Write(records, sort.Tile(), first, end);
  const int64_t noRow = keys.NoRow();
  AscendC::PipeBarrier<PIPE_ALL>();
  const bool inScratch = sort.Sort(records, scratch, BitsOf(noRow), loaded);

  pipe.Reset();
  RowUpdates<T> updates;
  updates.Init(&pipe, in, workspace + 2 * recordBytes + countBytes, noRow, inScratch ? scratch : records, tiling);
  updates.SumBlocks(first, end);
  RadixSort::Meet();
  updates.JoinBlocks(first, end);
}

extern "C" __global__ __aicore__ void backward_codegen_adagrad_unweighted_exact(
    GM_ADDR grad_output, GM_ADDR dev_weights, GM_ADDR uvm_weights, GM_ADDR lxu_cache_weights,
    GM_ADDR weights_placements, GM_ADDR weights_offsets, GM_ADDR d_offsets, GM_ADDR hash_size_cumsum, GM_ADDR indices,
    GM_ADDR offsets, GM_ADDR lxu_cache_locations, GM_ADDR momentum1_dev, GM_ADDR momentum1_uvm,
    GM_ADDR momentum1_placements, GM_ADDR momentum1_offsets, GM_ADDR momentum2_dev, GM_ADDR momentum2_uvm,
    GM_ADDR momentum2_placements, GM_ADDR momentum2_offsets, GM_ADDR hash_indices, GM_ADDR unique_id,
    GM_ADDR unique_hash_size, GM_ADDR unique_inverse, GM_ADDR indice_weights, GM_ADDR feature_requires_grad,
    GM_ADDR out, GM_ADDR momentum1_dev_out, GM_ADDR momentum2_dev_out, GM_ADDR weights_dev_out, GM_ADDR workspace,
    GM_ADDR tiling) {
  REGISTER_TILING_DEFAULT(BackwardCodegenAdagradUnweightedExactTilingData);
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  GET_TILING_DATA(tilingData, tiling);
  GM_ADDR user = AscendC::GetUserWorkspace(workspace);
  if (user == nullptr) {
    return;
  }
  BackwardArguments in;
  in.grad = grad_output;
  in.weights = weights_dev_out;  // the tensor of dev_weights, as the outputs of the states
  in.weightsOffsets = weights_offsets;
  in.dOffsets = d_offsets;
  in.hashSizeCumsum = hash_size_cumsum;
  in.indices = indices;
  in.offsets = offsets;
  in.momentum1 = momentum1_dev_out;
  in.momentum1Offsets = momentum1_offsets;
  in.momentum2 = momentum2_dev_out;
  in.momentum2Offsets = momentum2_offsets;
  in.indiceWeights = indice_weights;
  in.featureRequiresGrad = feature_requires_grad;
  in.indiceWeightsGradient = out;
  if (TILING_KEY_IS(1)) {
    RunBackward<DTYPE_DEV_WEIGHTS>(in, user, tilingData);
  }
}
