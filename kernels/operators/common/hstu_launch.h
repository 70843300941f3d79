// What the HSTU operators declare alike, and the last steps of their tiling functions.
#pragma once
#include "data_faults_host.h"
#include "hstu_host.h"

namespace hstu {

// Inputs from mask on, up to the counts of contexts and targets.
template <typename Definition>
void DeclareMaskAndSequences(Definition& op, const Columns& columns) {
  op.Input("mask").ParamType(ops::OPTIONAL).DataType(columns.mask).Format(columns.format).AutoContiguous();
  op.Input("attn_bias").ParamType(ops::OPTIONAL).DataType(columns.data).Format(columns.format).AutoContiguous();
  for (const char* input : {"seq_offset", "seq_offset_k", "num_context", "num_target"}) {
    op.Input(input).ParamType(ops::OPTIONAL).DataType(columns.index).Format(columns.format).AutoContiguous();
  }
}

// In the order of Attribute.
template <typename Definition>
void DeclareAttributes(Definition& op) {
  op.Attr("mask_type").AttrType(ops::OPTIONAL).Int(0);
  op.Attr("max_seq_len").AttrType(ops::OPTIONAL).Int(0);
  op.Attr("silu_scale").AttrType(ops::OPTIONAL).Float(0.0f);
  op.Attr("layout").AttrType(ops::OPTIONAL).String("normal");
  op.Attr("target_group_size").AttrType(ops::OPTIONAL).Int(0);
  op.Attr("alpha").AttrType(ops::OPTIONAL).Float(1.0f);
  op.Attr("max_attn_len").AttrType(ops::OPTIONAL).Int(0);
  op.Attr("min_full_attn_seq_len").AttrType(ops::OPTIONAL).Int(0);
  op.Attr("window_size").AttrType(ops::OPTIONAL).Int(-1);
}

// Sizes of tiles, no larger than the longest sequence can be.
inline void SizeTiles(const Describer& describer, HstuTilingData& tiling) {
  const int64_t longest = std::max<int64_t>(describer.LongestPossible(), 1);
  tiling.blockRows = static_cast<uint32_t>(std::min(BLOCK_ROWS, RoundUpTo(longest, 16)));
  tiling.chunk = static_cast<uint32_t>(std::min(MAX_CHUNK, RoundUpTo(longest, HSTU_COLUMN_UNIT)));
}

// Blocks for the tasks that own `rows` rows, two vector cores each, and the workspace of all of them.
inline ge::graphStatus Launch(gert::TilingContext* context, const platform_ascendc::PlatformAscendC& platform,
                              const HstuTilingData& tiling, int64_t rows) {
  const int64_t tasks =
      tiling.heads * ((rows + tiling.blockRows - 1) / tiling.blockRows + std::min(tiling.batch, rows));
  const int64_t blocks = std::min<int64_t>(platform.GetCoreNumAic(), (tasks + 1) / 2);
  context->SetBlockDim(static_cast<uint32_t>(std::max<int64_t>(blocks, 1)));
  context->SetTilingKey(WideRows(tiling) ? 1 : 0);
  std::size_t* workspaces = context->GetWorkspaceSizes(1);
  if (workspaces == nullptr) {
    return ge::GRAPH_FAILED;
  }
  workspaces[0] = platform.GetLibApiWorkSpaceSize() + 2 * context->GetBlockDim() * tiling.coreElements * sizeof(float);
  return ge::GRAPH_SUCCESS;
}

}  // namespace hstu
