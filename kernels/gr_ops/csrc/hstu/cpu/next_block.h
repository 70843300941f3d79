#pragma once

#include "hstu/cpu/gemm.h"
#include "hstu/cpu/head.h"
#include "hstu/cpu/prefetch.h"
#include "hstu/cpu/visible_keys.h"

// What a pass over blocks of queries takes next. A short row takes less time to compute than to arrive, and a longer
// one has several arrays whose tokens come at the same time.
namespace gr_ops::hstu {
namespace {

// The tokens of a block of queries, and as many keys beside them.
template <class P>
void ask_for_block(const Head& head, int block, bool writes_keys, Prefetch& ahead) {
  constexpr ptrdiff_t size = sizeof(typename P::Stored);
  const int first = block * kQueryBlock;
  const auto place = [&](const void* data, ptrdiff_t stride) {
    return data == nullptr ? nullptr : static_cast<const char*>(data) + first * stride * size;
  };
  const auto count = [&](int tokens) { return smaller(kQueryBlock, tokens - first); };
  const auto read = [&](const Tokens& tokens, int all, int width) {
    if (tokens.cached == 0) {
      ahead.read(place(tokens.data, tokens.stride), width * size, count(all), tokens.stride * size);
    }
  };
  const auto write = [&](void* data, ptrdiff_t stride, int all, int width) {
    ahead.write(const_cast<char*>(place(data, stride)), width * size, count(all), stride * size);
  };
  read(head.q, head.queries, head.dim);
  read(head.k, head.keys, head.dim);
  read(head.v, head.keys, head.value_dim);
  read(head.grad, head.queries, head.value_dim);
  write(head.out, head.out_stride, head.queries, head.value_dim);
  write(head.dq, head.q.stride, head.queries, head.dim);
  if (!writes_keys) return;
  write(head.dk, head.k.stride, head.keys, head.dim);
  write(head.dv, head.v.stride, head.keys, head.value_dim);
}

// Of a pass over the blocks of this head up to `last`, then over the head that comes next. `writes_keys`: whether this
// pass writes their gradients.
template <class P>
Prefetch ahead_of_block(const Head& head, int block, int last, bool writes_keys = true) {
  Prefetch ahead;
  if (block + 1 < last) {
    ask_for_block<P>(head, block + 1, writes_keys, ahead);
  } else if (head.next != nullptr) {
    ask_for_block<P>(*head.next, 0, true, ahead);
  }
  return ahead;
}

}  // namespace
}  // namespace gr_ops::hstu
