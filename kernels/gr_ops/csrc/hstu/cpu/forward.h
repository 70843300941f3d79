#pragma once

#include "hstu/cpu/next_block.h"
#include "hstu/cpu/scores.h"

// O = (SiLU((Q K^T + bias) * alpha) * scale * mask) V by blocks of queries x tiles of keys. Scores stand as
// [key][query], so that keys and values are used as they lie in memory and each product is 64 queries wide.
namespace gr_ops::hstu {
namespace {

template <class P>
struct ForwardScratch {
  using Sum = typename P::Sum;
  using Operand = typename P::Operand;
  Operand *queries, *keys, *values, *weights;
  Sum *scores, *out;
  Activation<P> activation;
  size_t bytes;

  ForwardScratch(int dim, int value_dim, void* block) {
    Arena arena(block);
    const size_t depth = round_up(groups<P>(dim), P::kLanes);
    const size_t width = round_up(value_dim, P::kLanes);
    queries = arena.take<Operand>(depth * kQueryBlock);
    keys = arena.take<Operand>(kKeyTile * depth);
    values = arena.take<Operand>(kKeyTile * width / P::kGroup);
    scores = arena.take<Sum>(kKeyTile * kQueryBlock);
    weights =
        P::kGroup == 1 ? reinterpret_cast<Operand*>(scores) : arena.take<Operand>(kKeyTile / P::kGroup * kQueryBlock);
    out = arena.take<Sum>(static_cast<size_t>(value_dim) * kQueryBlock);
    activation.allocate(arena);
    bytes = arena.used();
  }
};

template <class P>
size_t forward_scratch(int dim, int value_dim) {
  return ForwardScratch<P>(dim, value_dim, nullptr).bytes;
}

template <class P>
void forward(const Head& head, int first_block, int last_block, void* memory) {
  ForwardScratch<P> scratch(head.dim, head.value_dim, memory);
  scratch.activation.set_head(head);
  const int depth = groups<P>(head.dim);
  VisibleBlock<typename P::Sum> visible;
  KeySubtile subtile_list[kKeyTile / kSubtileKeys];
  for (int block = first_block; block < last_block; ++block) {
    const int query = block * kQueryBlock;
    const int queries = smaller(kQueryBlock, head.queries - query);
    visible.set(head, query, queries);
    Prefetch ahead = ahead_of_block<P>(head, block, last_block);
    pack_columns<P>(head.q, query, queries, head.dim, scratch.queries);
    clear_columns(scratch.out, head.value_dim, visible.lanes);
    for (int key = visible.first / kKeyTile * kKeyTile; key < visible.last; key += kKeyTile) {
      const int keys = smaller(kKeyTile, head.keys - key);
      const int count = key_subtiles<P>(visible, key, keys, subtile_list);
      if (count == 0) continue;
      const RowOperand<P> k = row_operand<P>(head.k, key, keys, head.dim, scratch.keys);
      const RowOperand<P> v = depth_operand<P>(head.v, key, keys, head.value_dim, head.value_dim, scratch.values);
      scratch.activation.load_squares(head, query, queries, key, keys);
      for (int i = 0; i < count; ++i) {
        const KeySubtile& subtile = subtile_list[i];
        const int lane = subtile.from * P::kLanes;
        gemm<P, false>(subtile.keys, subtile.to - subtile.from, depth, k.data + subtile.key * k.ld, k.ld,
                       scratch.queries + lane, kQueryBlock, scratch.scores + subtile.key * kQueryBlock + lane,
                       kQueryBlock, false, ahead);
        scratch.activation.start(subtile);
        activate<P>(scratch.activation, visible, subtile, key, scratch.scores, scratch.weights);
        const ptrdiff_t group = subtile.key / P::kGroup;
        gemm<P, true>(head.value_dim, subtile.to - subtile.from, groups<P>(subtile.keys), v.data + group * v.ld, v.ld,
                      scratch.weights + group * kQueryBlock + lane, kQueryBlock, scratch.out + lane, kQueryBlock, true,
                      ahead);
      }
    }
    auto* out = static_cast<typename P::Stored*>(head.out) + query * head.out_stride;
    unpack_columns<P>(scratch.out, 0, queries, head.value_dim, head.scale, out, head.out_stride);
  }
}

}  // namespace
}  // namespace gr_ops::hstu
