#pragma once

#include "hstu/cpu/gemm.h"
#include "hstu/cpu/head.h"

namespace gr_ops::hstu {
namespace {

// Asks for the memory of the head that comes next, part by part between the steps of the present one. A short row takes
// less time to compute than to arrive, and its tokens lie too far apart for the processor to foresee them; requests
// made all at once help less.
template <class P>
class NextHeadPrefetch {
 public:
  explicit NextHeadPrefetch(const Head* head) {
    if (head == nullptr) return;
    const auto read = [&](const Tokens& tokens, int count, int width) {
      if (tokens.cached == 0) add(tokens.data, tokens.stride, count, width, false);
    };
    read(head->q, head->queries, head->dim);
    read(head->k, head->keys, head->dim);
    read(head->v, head->keys, head->value_dim);
    read(head->grad, head->queries, head->value_dim);
    add(head->out, head->out_stride, head->queries, head->value_dim, true);
    add(head->dq, head->q.stride, head->queries, head->dim, true);
    add(head->dk, head->k.stride, head->keys, head->dim, true);
    add(head->dv, head->v.stride, head->keys, head->value_dim, true);
  }

  void step() {
    for (int left = kLines; left > 0 && part_ < count_;) {
      const Part& part = parts_[part_];
      if (token_ == part.tokens) {
        ++part_;
        token_ = 0;
        continue;
      }
      const char* token = part.start + token_ * part.stride;
      if (part.result) {
        for (int line = 0; line < part.lines; ++line) __builtin_prefetch(token + line * 64, 1, 3);
      } else {
        for (int line = 0; line < part.lines; ++line) __builtin_prefetch(token + line * 64, 0, 3);
      }
      left -= part.lines;
      ++token_;
    }
  }

 private:
  static constexpr int kLines = 64;  // a step

  struct Part {
    const char* start;
    ptrdiff_t stride;  // bytes
    int tokens, lines;
    bool result;
  };

  void add(const void* data, ptrdiff_t stride, int tokens, int width, bool result) {
    constexpr auto size = static_cast<int>(sizeof(typename P::Stored));
    if (data == nullptr) return;
    const int first = tokens < kQueryBlock ? tokens : kQueryBlock;
    parts_[count_++] = {static_cast<const char*>(data), stride * size, first, (width * size + 63) / 64, result};
  }

  Part parts_[8];
  int count_ = 0, part_ = 0, token_ = 0;
};

}  // namespace
}  // namespace gr_ops::hstu
