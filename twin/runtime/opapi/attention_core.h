// Attention of one sequence of queries over one of keys, by heads: softmax(scale * (q k^T + pse)) v, or
// softmax(scale * q k^T + pse) v. There may be no keys: the result is then zero.
#pragma once
#include <ATen/ATen.h>

namespace twin::opapi {

struct Sequence {
  at::Tensor query;   // [heads, queries, width], all in one floating-point type
  at::Tensor key;     // [heads of keys, keys, width], each for heads / (heads of keys) heads in a row
  at::Tensor value;   // [heads of keys, keys, width of values]
  at::Tensor masked;  // true where a score is left out, [1 or heads, queries, keys], or undefined
  at::Tensor pse;     // position encoding that is added, broadcasts to the scores, or undefined
  at::Tensor keep;    // dropout: true where a weight is kept, [heads, queries, keys], or undefined
  double scale;
  double keepProb;
  bool pseIsScaled;  // pse is added before the scale
};

struct AttentionResult {
  at::Tensor out;  // [heads, queries, width of values]
  at::Tensor max;  // [heads, queries], of the scores that are not left out
  at::Tensor sum;  // [heads, queries], of exp(score - max)
};

// A query all of whose keys are left out gets zeros.
AttentionResult Attend(const Sequence& sequence);

struct AttentionGradients {
  at::Tensor query, key, value;
  at::Tensor pse;  // [heads, queries, keys]
};

// From the statistics and the result of the forward pass, as the device has them.
AttentionGradients AttendBackward(const Sequence& sequence, const AttentionResult& forward, const at::Tensor& dy);

}  // namespace twin::opapi
