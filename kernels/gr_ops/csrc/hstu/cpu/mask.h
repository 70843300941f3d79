#pragma once

#include <cstdint>

#include "hstu/cpu/gemm.h"
#include "hstu/cpu/visible_keys.h"

// Which part of a block of queries x a tile of keys is seen.
namespace gr_ops::hstu {
namespace {

// The keys that each query of a block sees; lanes past the last query repeat it, up to a whole vector.
template <typename Sum>
struct VisibleBlock {
  using Int = typename Lanes<Sum>::Int;
  static constexpr int kLanes = Lanes<Sum>::count;
  static constexpr int kNever = 1 << 30;  // where the empty run of a lane starts, so that no extent grows by it
  Int low[2][kQueryBlock];
  Int high[2][kQueryBlock];
  int lanes = 0;            // in use, whole vectors
  int first = 0, last = 0;  // all keys seen lie in [first, last)

  void set(const Head& head, int query, int count) {
    lanes = (count + kLanes - 1) / kLanes * kLanes;
    const int position = query + head.shift;
    const MaskRule& rule = head.rule;
    if (rule.kind == MaskRule::Lower && rule.context == 0 && rule.window == 0 && rule.reach == kUnlimited &&
        position + count <= rule.targets_from) {
      for (int i = 0; i < lanes; ++i) {
        low[0][i] = 0;
        high[0][i] = position + 1 + smaller(i, count - 1);
        low[1][i] = kNever;
        high[1][i] = 0;
      }
    } else {
      for (int i = 0; i < lanes; ++i) {
        const KeyRanges s = visible_keys(rule, head.keys, position + smaller(i, count - 1));
        for (int part = 0; part < 2; ++part) {
          const bool empty = s.low[part] >= s.high[part];
          low[part][i] = empty ? kNever : s.low[part];
          high[part][i] = empty ? 0 : s.high[part];
        }
      }
    }
    first = head.keys;
    last = 0;
    for (int v = 0; v * kLanes < lanes; ++v) {
      for (int part = 0; part < 2; ++part) {
        Extent& e = extents_[part][v];
        e = {low[part][v * kLanes], high[part][v * kLanes], low[part][v * kLanes], high[part][v * kLanes]};
        for (int i = v * kLanes; i < (v + 1) * kLanes; ++i) {
          e.first = low[part][i] < e.first ? low[part][i] : e.first;
          e.last = high[part][i] > e.last ? high[part][i] : e.last;
          e.all_from = low[part][i] > e.all_from ? low[part][i] : e.all_from;
          e.all_to = high[part][i] < e.all_to ? high[part][i] : e.all_to;
        }
        if (e.first >= e.last) continue;
        first = smaller(first, static_cast<int>(e.first));
        last = larger(last, static_cast<int>(e.last));
      }
    }
  }

  // Vector v may see some of the keys [a, b): false only if it sees none.
  bool any(int v, int a, int b) const {
    const auto meets = [&](const Extent& e) { return e.first < b && e.last > a; };
    return meets(extents_[0][v]) || meets(extents_[1][v]);
  }

  // Every lane of vector v sees all of the keys [a, b): true only if so.
  bool full(int v, int a, int b) const {
    const auto covers = [&](const Extent& e) { return e.all_from <= a && e.all_to >= b; };
    return covers(extents_[0][v]) || covers(extents_[1][v]);
  }

  // `value` where the lane sees the key, else 0.
  typename Lanes<Sum>::Vector select(int i, int key, typename Lanes<Sum>::Vector value) const {
    using IntVector = typename Lanes<Sum>::IntVector;
    using IntLoose = typename Lanes<Sum>::IntLoose;
    const auto at = [&](const Int* from) -> IntVector { return *reinterpret_cast<const IntLoose*>(from + i); };
    const IntVector k = IntVector{} + static_cast<Int>(key);
    const IntVector seen = ((at(low[0]) <= k) & (k < at(high[0]))) | ((at(low[1]) <= k) & (k < at(high[1])));
    return seen ? value : typename Lanes<Sum>::Vector{};
  }

 private:
  // Of the lanes of one vector: what any of them sees lies in [first, last); all of them see [all_from, all_to).
  struct Extent {
    Int first, last, all_from, all_to;
  };
  Extent extents_[2][kQueryBlock / kLanes];
};

// Keys [key, key + keys) of a tile, relative to it, that vectors [from, to) of the block see some of.
struct KeySubtile {
  int key, keys;
  int from, to;
};

// As many keys as a vector has queries at most: a subtile of the diagonal then starts where a vector does.
constexpr int kSubtileKeys = 16;

// The subtiles of the tile of keys [first, first + keys); neighbours of one extent are one subtile. Returns their
// number.
template <class P>
int key_subtiles(const VisibleBlock<typename P::Sum>& block, int first, int keys,
                 KeySubtile (&result)[kKeyTile / kSubtileKeys]) {
  const int vectors = block.lanes / P::kLanes;
  int full = 0;
  while (full < vectors && block.full(full, first, first + keys)) ++full;
  if (full == vectors) {
    result[0] = {0, keys, 0, vectors};
    return 1;
  }
  int count = 0;
  for (int key = 0; key < keys; key += kSubtileKeys) {
    const int end = smaller(key + kSubtileKeys, keys);
    const auto seen = [&](int v) { return block.any(v, first + key, first + end); };
    int from = 0;
    int to = vectors;
    while (from < vectors && !seen(from)) ++from;
    if (from == vectors) continue;
    while (!seen(to - 1)) --to;
    KeySubtile* previous = count > 0 ? &result[count - 1] : nullptr;
    if (previous != nullptr && previous->key + previous->keys == key && previous->from == from && previous->to == to) {
      previous->keys = end - previous->key;
    } else {
      result[count++] = {key, end - key, from, to};
    }
  }
  return count;
}

}  // namespace
}  // namespace gr_ops::hstu
