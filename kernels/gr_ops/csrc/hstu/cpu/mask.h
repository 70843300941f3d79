#pragma once

#include <cstdint>

#include "hstu/cpu/gemm.h"
#include "hstu/cpu/sight.h"

// Which part of a block of queries x a tile of keys is seen.
namespace gr_ops::hstu {
namespace {

// The sights of a block of queries; lanes past the last query repeat it, up to a whole vector.
template <typename Sum>
struct BlockSight {
  using Int = typename Lanes<Sum>::Int;
  Int low[2][kQueryBlock];
  Int high[2][kQueryBlock];
  int lanes = 0;            // in use, whole vectors
  int first = 0, last = 0;  // all keys seen lie in [first, last)

  void set(const Head& head, int query, int count) {
    first = head.keys;
    last = 0;
    lanes = (count + Lanes<Sum>::count - 1) / Lanes<Sum>::count * Lanes<Sum>::count;
    for (int i = 0; i < lanes; ++i) {
      const Sight s = sight(head.rule, head.keys, query + smaller(i, count - 1) + head.shift);
      for (int part = 0; part < 2; ++part) {
        low[part][i] = s.low[part];
        high[part][i] = s.high[part];
        if (s.low[part] >= s.high[part]) continue;
        first = smaller(first, s.low[part]);
        last = larger(last, s.high[part]);
      }
    }
  }

  // Lanes [i, i + count) see some of the keys [a, b).
  bool any(int i, int count, int a, int b) const {
    Int seen = 0;
    for (int lane = i; lane < i + count; ++lane) {
      for (int part = 0; part < 2; ++part) {
        const Int from = low[part][lane] > a ? low[part][lane] : a;
        const Int to = high[part][lane] < b ? high[part][lane] : b;
        seen |= from < to;
      }
    }
    return seen != 0;
  }

  // Every lane sees all of the keys [a, b).
  bool full(int a, int b) const {
    Int hidden = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      hidden |= !((low[0][lane] <= a && high[0][lane] >= b) || (low[1][lane] <= a && high[1][lane] >= b));
    }
    return hidden == 0;
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
};

// Keys [key, key + keys) of a tile, relative to it, that vectors [from, to) of the block see some of.
struct Strip {
  int key, keys;
  int from, to;
  bool full;  // every lane sees every key
};

constexpr int kStrip = 12;  // an even number and a multiple of kRows

// The strips of the tile of keys [first, first + keys); neighbours of one extent are one strip. Returns their number.
template <class P>
int strips(const BlockSight<typename P::Sum>& block, int first, int keys, Strip (&result)[kKeyTile / kStrip]) {
  const int vectors = block.lanes / P::kLanes;
  if (block.full(first, first + keys)) {
    result[0] = {0, keys, 0, vectors, true};
    return 1;
  }
  int count = 0;
  for (int key = 0; key < keys; key += kStrip) {
    const int end = smaller(key + kStrip, keys);
    const auto seen = [&](int v) { return block.any(v * P::kLanes, P::kLanes, first + key, first + end); };
    int from = 0;
    int to = vectors;
    while (from < vectors && !seen(from)) ++from;
    if (from == vectors) continue;
    while (!seen(to - 1)) --to;
    const bool full = block.full(first + key, first + end);
    Strip* previous = count > 0 ? &result[count - 1] : nullptr;
    if (previous != nullptr && previous->key + previous->keys == key && previous->from == from && previous->to == to &&
        previous->full == full) {
      previous->keys = end - previous->key;
    } else {
      result[count++] = {key, end - key, from, to, full};
    }
  }
  return count;
}

}  // namespace
}  // namespace gr_ops::hstu
