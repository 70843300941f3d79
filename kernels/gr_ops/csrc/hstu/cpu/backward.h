#pragma once

#include "hstu/cpu/next_block.h"
#include "hstu/cpu/scores.h"
#include "hstu/cpu/tail.h"

// Gradients by blocks of queries x tiles of keys; the scores are computed again. With [key][query] as in forward.h:
//   dV += P dO    dK += dX Q    dQ^T += K^T dX    where dP = V dO^T, dX = dL/dS
// Every sum runs over blocks and tiles in ascending order, whichever of the functions below is used: the same bits.
namespace gr_ops::hstu {
namespace {

template <class P>
class Backward {
 public:
  using Sum = typename P::Sum;
  using Operand = typename P::Operand;
  using Vector = typename P::Vector;

  Backward(const Head& head, int keys, void* block)
      : head_(head),
        arena_(block),
        depth_(groups<P>(head.dim)),
        value_depth_(groups<P>(head.value_dim)),
        width_(round_up(head.dim, P::kLanes)),
        value_width_(round_up(head.value_dim, P::kLanes)) {
    const int deep = round_up(depth_, P::kLanes);
    const int value_deep = round_up(value_depth_, P::kLanes);
    query_columns_ = arena_.take<Operand>(deep * kQueryBlock);
    grad_columns_ = arena_.take<Operand>(value_deep * kQueryBlock);
    query_depth_ = arena_.take<Operand>(kQueryBlock / P::kGroup * width_);
    grad_copy_ = arena_.take<Operand>(kQueryBlock / P::kGroup * value_width_);
    key_copy_ = arena_.take<Operand>(kKeyTile * deep);
    value_copy_ = arena_.take<Operand>(kKeyTile * value_deep);
    key_depth_ = arena_.take<Operand>(kKeyTile / P::kGroup * width_);
    scores_ = arena_.take<Sum>(kKeyTile * kQueryBlock);
    products_ = arena_.take<Sum>(kKeyTile * kQueryBlock);
    if constexpr (P::kGroup == 1) {
      weight_rows_ = products_;
      gradient_rows_ = gradient_depth_ = scores_;
    } else {
      weight_rows_ = arena_.take<Operand>(kKeyTile * kQueryBlock / P::kGroup);
      gradient_rows_ = arena_.take<Operand>(kKeyTile * kQueryBlock / P::kGroup);
      gradient_depth_ = arena_.take<Operand>(kKeyTile * kQueryBlock / P::kGroup);
    }
    query_sums_ = arena_.take<Sum>(static_cast<size_t>(head.dim) * kQueryBlock);
    bias_sums_ = arena_.take<Sum>(kKeyTile * kQueryBlock);
    key_sums_ = arena_.take<Sum>(static_cast<size_t>(keys > kKeyTile ? keys : kKeyTile) * width_);
    value_sums_ = arena_.take<Sum>(static_cast<size_t>(keys > kKeyTile ? keys : kKeyTile) * value_width_);
    activation_.allocate(arena_);
    if (block != nullptr) activation_.set_head(head);
    if (head.relative.sums != nullptr) relative_.allocate(arena_, head.keys, head.relative.buckets);
  }

  size_t bytes() const { return arena_.used(); }

  void all() {
    zero(key_sums_, static_cast<size_t>(head_.keys) * width_);
    zero(value_sums_, static_cast<size_t>(head_.keys) * value_width_);
    for (int block = 0; block < query_blocks(head_.queries); ++block) {
      set_queries(block * kQueryBlock, smaller(kQueryBlock, head_.queries - block * kQueryBlock));
      ahead_ = ahead_of_block<P>(head_, block, query_blocks(head_.queries));
      pack_query_columns();
      pack_query_depth();
      clear_columns(query_sums_, head_.dim, visible_.lanes);
      start_relative();
      for (int key = visible_.first / kKeyTile * kKeyTile; key < visible_.last; key += kKeyTile) {
        if (!set_keys(key)) continue;
        pack_key_rows();
        pack_key_depth();
        differentiate();
        add_to_keys(key_sums_ + static_cast<ptrdiff_t>(key) * width_,
                    value_sums_ + static_cast<ptrdiff_t>(key) * value_width_);
        add_to_queries();
        add_to_relative();
        if (head_.dbias != nullptr) write_bias();
      }
      write_queries();
      write_relative(block);
    }
    write_keys(0, head_.keys);
  }

  void keys(int first, int last) {
    for (int tile = first; tile < last; ++tile) {
      zero(key_sums_, static_cast<size_t>(kKeyTile) * width_);
      zero(value_sums_, static_cast<size_t>(kKeyTile) * value_width_);
      bool packed = false;
      for (int block = 0; block < query_blocks(head_.queries); ++block) {
        set_queries(block * kQueryBlock, smaller(kQueryBlock, head_.queries - block * kQueryBlock));
        if (!set_keys(tile * kKeyTile)) continue;
        if (!packed) pack_key_rows();
        packed = true;
        pack_query_columns();
        pack_query_depth();
        differentiate();
        add_to_keys(key_sums_, value_sums_);
      }
      const int key = tile * kKeyTile;
      write_keys(key, smaller(key + kKeyTile, head_.keys));
    }
  }

  void queries(int first, int last) {
    for (int block = first; block < last; ++block) {
      set_queries(block * kQueryBlock, smaller(kQueryBlock, head_.queries - block * kQueryBlock));
      ahead_ = ahead_of_block<P>(head_, block, last, false);
      pack_query_columns();
      clear_columns(query_sums_, head_.dim, visible_.lanes);
      start_relative();
      for (int key = visible_.first / kKeyTile * kKeyTile; key < visible_.last; key += kKeyTile) {
        if (!set_keys(key)) continue;
        pack_key_rows();
        pack_key_depth();
        differentiate();
        add_to_queries();
        add_to_relative();
        if (head_.dbias != nullptr) write_bias();
      }
      write_queries();
      write_relative(block);
    }
  }

  // Adds this head's part to [key][position] sums of a block of positions.
  void add_bias(int position, int key, Sum* sums) {
    const int start = larger(position, head_.shift);
    const int end = smaller(position + kQueryBlock, head_.shift + head_.queries);
    if (start >= end || key >= head_.keys) return;
    set_queries(start - head_.shift, end - start);
    if (!set_keys(key)) return;
    pack_query_columns();
    pack_key_rows();
    differentiate();
    for (int s = 0; s < subtile_count_; ++s) {
      const KeySubtile& subtile = subtiles_[s];
      const int lanes_end = smaller(subtile.to * P::kLanes, queries_);
      for (int j = subtile.key; j < subtile.key + subtile.keys; ++j) {
        Sum* to = sums + static_cast<ptrdiff_t>(j) * kQueryBlock + (start - position);
        for (int i = subtile.from * P::kLanes; i < lanes_end; ++i) to[i] += scores_[j * kQueryBlock + i];
      }
    }
  }

  Sum* bias_sums() { return bias_sums_; }

 private:
  static void zero(Sum* sums, size_t count) { std::memset(sums, 0, count * sizeof(Sum)); }

  void set_queries(int query, int count) {
    query_ = query;
    queries_ = count;
    visible_.set(head_, query, count);
  }

  // False if no query of the block sees a key of the tile.
  bool set_keys(int key) {
    if (key + kKeyTile <= visible_.first || key >= visible_.last) return false;
    key_ = key;
    keys_ = smaller(kKeyTile, head_.keys - key);
    subtile_count_ = key_subtiles<P>(visible_, key, keys_, subtiles_);
    return subtile_count_ > 0;
  }

  void pack_query_columns() {
    pack_columns<P>(head_.q, query_, queries_, head_.dim, query_columns_);
    pack_columns<P>(head_.grad, query_, queries_, head_.value_dim, grad_columns_);
  }

  void pack_query_depth() {
    q_depth_ = block_depth(head_.q, head_.dim, query_depth_);
    grad_depth_ = block_depth(head_.grad, head_.value_dim, grad_copy_);
  }

  // Pairs reach past an odd last query: that half is 0.
  RowOperand<P> block_depth(const Tokens& tokens, int dim, Operand* copy) const {
    return depth_operand<P>(tokens, query_, queries_, dim, vectors_of(dim) * P::kLanes, copy);
  }

  void pack_key_rows() {
    k_ = row_operand<P>(head_.k, key_, keys_, head_.dim, key_copy_);
    v_ = row_operand<P>(head_.v, key_, keys_, head_.value_dim, value_copy_);
  }

  void pack_key_depth() { k_depth_ = depth_operand<P>(head_.k, key_, keys_, head_.dim, head_.dim, key_depth_); }

  // Weights P and gradients dX of the tile.
  void differentiate() {
    activation_.load_squares(head_, query_, queries_, key_, keys_);
    for (int s = 0; s < subtile_count_; ++s) {
      const KeySubtile& subtile = subtiles_[s];
      const int lane = subtile.from * P::kLanes;
      const ptrdiff_t at = static_cast<ptrdiff_t>(subtile.key) * kQueryBlock + lane;
      gemm<P, false>(subtile.keys, subtile.to - subtile.from, depth_, k_.data + subtile.key * k_.ld, k_.ld,
                     query_columns_ + lane, kQueryBlock, scores_ + at, kQueryBlock, false, ahead_);
      gemm<P, false>(subtile.keys, subtile.to - subtile.from, value_depth_, v_.data + subtile.key * v_.ld, v_.ld,
                     grad_columns_ + lane, kQueryBlock, products_ + at, kQueryBlock, false, ahead_);
      activation_.start(subtile);
      differentiate(subtile);
    }
  }

  void differentiate(const KeySubtile& subtile) {
    const int end = subtile.key + subtile.keys;
    for (int v = subtile.from; v < subtile.to; ++v) {
      if (visible_.full(v, key_ + subtile.key, key_ + end)) {
        differentiate<false>(subtile.key, end, v * P::kLanes);
      } else {
        differentiate<true>(subtile.key, end, v * P::kLanes);
      }
    }
    if constexpr (P::kGroup == 2) {
      for (int key = subtile.key; key < end; key += 2) {
        for (int lane = subtile.from * P::kLanes; lane < subtile.to * P::kLanes; lane += P::kLanes) {
          const Sum* from = scores_ + static_cast<ptrdiff_t>(key) * kQueryBlock + lane;
          const Vector odd = key + 1 < end ? load(from + kQueryBlock) : Vector{};
          put(gradient_depth_ + static_cast<ptrdiff_t>(key / 2) * kQueryBlock + lane, pair(load(from), odd));
        }
      }
    }
  }

  // Scale and alpha are left to the sums that weights and gradients end in.
  template <bool Cut>
  void differentiate(int first, int end, int lane) {
    for (int key = first; key < end; ++key) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(key) * kQueryBlock + lane;
      const Vector s = activation_.score(scores_, at);
      const Vector sigma = sigmoid<P::kPrecise>(s);
      Vector weight = s * sigma;
      Vector gradient = load(products_ + at) * (sigma + weight * (splat(Sum(1)) - sigma));
      if (activation_.weight != nullptr) {
        const Vector user = load(activation_.weight + at);
        weight = Activation<P>::weighted(user, weight);
        gradient = Activation<P>::weighted(user, gradient);
      }
      if constexpr (Cut) {
        weight = visible_.select(lane, key_ + key, weight);
        gradient = visible_.select(lane, key_ + key, gradient);
      }
      store(scores_ + at, gradient);
      put_row(weight_rows_ + at / P::kGroup, weight);
      if constexpr (P::kGroup == 2) put_row(gradient_rows_ + at / 2, gradient);
    }
  }

  void add_to_keys(Sum* key_sums, Sum* value_sums) {
    for (int s = 0; s < subtile_count_; ++s) {
      const KeySubtile& subtile = subtiles_[s];
      add_to_keys(subtile, weight_rows_, grad_depth_, grad_columns_, head_.value_dim, value_width_, value_sums);
      add_to_keys(subtile, gradient_rows_, q_depth_, query_columns_, head_.dim, width_, key_sums);
    }
  }

  // Of a token's elements, less a tail.
  static int vectors_of(int dim) {
    return (dim - (P::kGroup == 1 ? tail_of<Sum>(dim) : 0) + P::kLanes - 1) / P::kLanes;
  }

  // sums += rows [key][query] times the block's tokens, which come in both forms.
  void add_to_keys(const KeySubtile& subtile, const Operand* rows, const RowOperand<P>& depth, const Operand* columns,
                   int dim, int width, Sum* sums) {
    constexpr ptrdiff_t row = kQueryBlock / P::kGroup;
    const int from = subtile.from * P::kLanes / P::kGroup;
    const int deep = groups<P>(smaller(subtile.to * P::kLanes, queries_)) - from;
    rows += subtile.key * row + from;
    sums += static_cast<ptrdiff_t>(subtile.key) * width;
    gemm<P, false>(subtile.keys, vectors_of(dim), deep, rows, row, depth.data + from * depth.ld, depth.ld, sums, width,
                   true, ahead_);
    if constexpr (P::kGroup == 1) {
      const int tail = tail_of<Sum>(dim), whole = dim - tail;
      if (tail > 0) {
        add_tail(subtile.keys, tail, deep, rows, row, columns + whole * row + from, row, sums + whole, width);
      }
    }
  }

  void add_to_queries() {
    for (int s = 0; s < subtile_count_; ++s) {
      const KeySubtile& subtile = subtiles_[s];
      const int lane = subtile.from * P::kLanes;
      const ptrdiff_t group = subtile.key / P::kGroup;
      gemm<P, true>(head_.dim, subtile.to - subtile.from, groups<P>(subtile.keys), k_depth_.data + group * k_depth_.ld,
                    k_depth_.ld, gradient_depth_ + group * kQueryBlock + lane, kQueryBlock, query_sums_ + lane,
                    kQueryBlock, true, ahead_);
    }
  }

  void start_relative() {
    if (head_.relative.sums == nullptr) return;
    relative_.start(head_, query_, smaller(head_.keys, visible_.last + kSubtileKeys));
  }

  void add_to_relative() {
    if (head_.relative.sums == nullptr) return;
    for (int s = 0; s < subtile_count_; ++s) {
      relative_.add(subtiles_[s], key_, scores_, activation_.relative);
    }
  }

  void write_relative(int block) const {
    if (head_.relative.sums == nullptr) return;
    relative_.finish(block, static_cast<Sum>(gradient_scale()), head_.relative.sums);
  }

  double gradient_scale() const { return head_.scale * head_.alpha; }

  void write_queries() {
    auto* to = static_cast<typename P::Stored*>(head_.dq) + query_ * head_.q.stride;
    unpack_columns<P>(query_sums_, 0, queries_, head_.dim, gradient_scale(), to, head_.q.stride);
  }

  // The sums of keys [first, last).
  void write_keys(int first, int last) {
    using Stored = typename P::Stored;
    unpack_rows<P>(key_sums_, width_, last - first, head_.dim, gradient_scale(),
                   static_cast<Stored*>(head_.dk) + first * head_.k.stride, head_.k.stride);
    unpack_rows<P>(value_sums_, value_width_, last - first, head_.value_dim, head_.scale,
                   static_cast<Stored*>(head_.dv) + first * head_.v.stride, head_.v.stride);
  }

  // The tile's dX to dbias; hidden cells within a subtile are 0 there already.
  void write_bias() {
    auto* square = static_cast<typename P::Stored*>(head_.dbias);
    for (int s = 0; s < subtile_count_; ++s) {
      const KeySubtile& subtile = subtiles_[s];
      unpack_columns<P>(scores_ + subtile.key * kQueryBlock, subtile.from * P::kLanes,
                        smaller(subtile.to * P::kLanes, queries_), subtile.keys, gradient_scale(),
                        square + (query_ + head_.shift) * head_.bias_side + key_ + subtile.key, head_.bias_side);
    }
  }

  const Head& head_;
  Arena arena_;
  Prefetch ahead_;
  const int depth_, value_depth_, width_, value_width_;
  Operand *query_columns_, *grad_columns_, *query_depth_, *grad_copy_;
  Operand *key_copy_, *value_copy_, *key_depth_;
  Operand *weight_rows_, *gradient_rows_, *gradient_depth_;
  Sum *scores_, *products_;  // Q K^T, then dX; V dO^T
  Sum *query_sums_, *key_sums_, *value_sums_, *bias_sums_;
  Activation<P> activation_;
  RelativeSums<P> relative_;
  VisibleBlock<Sum> visible_;
  KeySubtile subtiles_[kKeyTile / kSubtileKeys];
  int subtile_count_ = 0;
  int query_ = 0, queries_ = 0, key_ = 0, keys_ = 0;
  RowOperand<P> k_{}, v_{};  // rows
  RowOperand<P> k_depth_{}, q_depth_{}, grad_depth_{};
};

template <class P>
size_t backward_scratch(int dim, int value_dim, int keys) {
  Head head;
  head.dim = dim;
  head.value_dim = value_dim;
  return Backward<P>(head, keys, nullptr).bytes();
}

template <class P>
void backward(const Head& head, void* scratch) {
  Backward<P>(head, head.keys, scratch).all();
}

template <class P>
void backward_keys(const Head& head, int first, int last, void* scratch) {
  Backward<P>(head, 0, scratch).keys(first, last);
}

template <class P>
void backward_queries(const Head& head, int first, int last, void* scratch) {
  Backward<P>(head, 0, scratch).queries(first, last);
}

template <class P>
void bias_gradient(const Head* heads, size_t count, int position_block, int key_tile, void* scratch) {
  const int position = position_block * kQueryBlock;
  const int key = key_tile * kKeyTile;
  typename P::Sum* sums = Backward<P>(heads[0], 0, scratch).bias_sums();
  std::memset(sums, 0, sizeof(typename P::Sum) * kKeyTile * kQueryBlock);
  for (size_t h = 0; h < count; ++h) Backward<P>(heads[h], 0, scratch).add_bias(position, key, sums);
  const auto side = static_cast<int>(heads[0].bias_side);
  auto* to = static_cast<typename P::Stored*>(heads[0].dbias) + position * heads[0].bias_side + key;
  unpack_columns<P>(sums, 0, smaller(kQueryBlock, side - position), smaller(kKeyTile, side - key),
                    heads[0].scale * heads[0].alpha, to, heads[0].bias_side);
}

}  // namespace
}  // namespace gr_ops::hstu
