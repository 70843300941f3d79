#pragma once

#include "hstu/cpu/arena.h"
#include "hstu/cpu/mask.h"
#include "hstu/cpu/relative.h"
#include "hstu/cpu/silu.h"
#include "hstu/cpu/square.h"

// From scores to weights: SiLU, scale, bias and masks on a tile of [key][query].
namespace gr_ops::hstu {
namespace {

// The biases and the user's mask of the tile at hand, and the constants of the head.
template <class P>
struct Activation {
  using Sum = typename P::Sum;
  using Vector = typename P::Vector;

  Sum* bias_tile = nullptr;
  Sum* weight_tile = nullptr;
  const Sum* bias = nullptr;    // bias_tile, or null without a bias
  const Sum* weight = nullptr;  // weight_tile, or null without a user's mask
  RelativeTile<P> relative;
  bool is_relative = false;  // bias_tile is made subtile by subtile
  Vector alpha;

  void allocate(Arena& arena) {
    bias_tile = arena.take<Sum>(kKeyTile * kQueryBlock);
    weight_tile = arena.take<Sum>(kKeyTile * kQueryBlock);
    relative.allocate(arena);
  }

  void set_head(const Head& head) {
    alpha = splat(static_cast<Sum>(head.alpha));
    is_relative = head.relative.position != nullptr;
  }

  void load_squares(const Head& head, int query, int queries, int key, int keys) {
    const int position = query + head.shift;
    bias = weight = nullptr;
    if (is_relative) {
      relative.set(head, query, queries, key);
      bias = bias_tile;
    }
    if (head.bias != nullptr) {
      load_tile(head.bias, ElementOf<typename P::Stored>::value, head.bias_side, position, queries, key, keys,
                bias_tile);
      bias = bias_tile;
    }
    if (head.weight != nullptr) {
      load_tile(head.weight, head.weight_element, head.weight_side, position, queries, key, keys, weight_tile);
      weight = weight_tile;
    }
  }

  // Before the scores of a subtile are asked for.
  void start(const KeySubtile& subtile) {
    if (is_relative) relative.make(subtile, bias_tile);
  }

  Vector score(const Sum* scores, ptrdiff_t at) const {
    Vector x = load(scores + at);
    if (bias != nullptr) x += load(bias + at);
    return alpha * x;
  }

  // factor * value; 0 where the factor is, whatever the value.
  static Vector weighted(Vector factor, Vector value) { return factor == Vector{} ? Vector{} : factor * value; }
};

// weights[key][query] = SiLU(score) * mask of a subtile, in place of the scores for kGroup 1. The scale is left to the
// sums that the weights end in.
template <class P, bool Cut>
void activate(const Activation<P>& activation, const VisibleBlock<typename P::Sum>& block, const KeySubtile& subtile,
              int v, int first_key, const typename P::Sum* scores, typename P::Operand* weights) {
  using Vector = typename P::Vector;
  const int lane = v * P::kLanes;
  const auto weight_at = [&](int key) -> Vector {
    const ptrdiff_t at = static_cast<ptrdiff_t>(key) * kQueryBlock + lane;
    const Vector s = activation.score(scores, at);
    Vector p = s * sigmoid<P::kPrecise>(s);
    if (activation.weight != nullptr) p = Activation<P>::weighted(load(activation.weight + at), p);
    if constexpr (Cut) p = block.select(lane, first_key + key, p);
    return p;
  };
  const int end = subtile.key + subtile.keys;
  for (int key = subtile.key; key < end; key += P::kGroup) {
    if constexpr (P::kGroup == 1) {
      store(weights + static_cast<ptrdiff_t>(key) * kQueryBlock + lane, weight_at(key));
    } else {
      const Vector odd = key + 1 < end ? weight_at(key + 1) : Vector{};
      put(weights + static_cast<ptrdiff_t>(key / 2) * kQueryBlock + lane, pair(weight_at(key), odd));
    }
  }
}

template <class P>
void activate(const Activation<P>& activation, const VisibleBlock<typename P::Sum>& block, const KeySubtile& subtile,
              int first_key, const typename P::Sum* scores, typename P::Operand* weights) {
  for (int v = subtile.from; v < subtile.to; ++v) {
    const int key = first_key + subtile.key;
    if (block.full(v, key, key + subtile.keys)) {
      activate<P, false>(activation, block, subtile, v, first_key, scores, weights);
    } else {
      activate<P, true>(activation, block, subtile, v, first_key, scores, weights);
    }
  }
}

}  // namespace
}  // namespace gr_ops::hstu
