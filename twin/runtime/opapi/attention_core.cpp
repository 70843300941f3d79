#include "attention_core.h"

#include <limits>

namespace twin::opapi {
namespace {

at::Tensor ForEachHead(const at::Tensor& shared, const at::Tensor& query) {
  return shared.repeat_interleave(query.size(0) / shared.size(0), 0);
}

// The gradient of a key's head is the sum over the heads that share it.
at::Tensor OverSharedHeads(const at::Tensor& gradient, const at::Tensor& shared) {
  const int64_t heads = shared.size(0);
  return gradient.reshape({heads, gradient.size(0) / heads, gradient.size(1), gradient.size(2)}).sum(1);
}

at::Tensor Scores(const Sequence& sequence, const at::Tensor& key) {
  auto scores = at::bmm(sequence.query, key.transpose(1, 2));
  if (sequence.pse.defined()) {
    scores = scores + sequence.pse;
  }
  scores = scores * sequence.scale;
  return sequence.masked.defined() ? scores.masked_fill(sequence.masked, -std::numeric_limits<float>::infinity())
                                   : scores;
}

at::Tensor Exponentials(const at::Tensor& scores, const at::Tensor& max) {
  // Of a row that is left out as a whole the largest score is -inf, and so is each.
  const auto base = max.masked_fill(max.eq(-std::numeric_limits<float>::infinity()), 0);
  return (scores - base.unsqueeze(2)).exp();
}

at::Tensor Weights(const at::Tensor& exponentials, const at::Tensor& sum) {
  return exponentials / sum.masked_fill(sum.eq(0), 1).unsqueeze(2);
}

at::Tensor Dropped(const at::Tensor& weights, const Sequence& sequence) {
  return sequence.keep.defined() ? weights.masked_fill(sequence.keep.logical_not(), 0) / sequence.keepProb : weights;
}

}  // namespace

AttentionResult Attend(const Sequence& sequence) {
  const auto value = ForEachHead(sequence.value, sequence.query);
  const auto scores = Scores(sequence, ForEachHead(sequence.key, sequence.query));
  // Kept in float, so the weights of the backward pass are those of this one.
  const auto max = scores.amax(2).to(at::kFloat).to(scores.scalar_type());
  const auto exponentials = Exponentials(scores, max);
  const auto sum = exponentials.sum(2);
  return {at::bmm(Dropped(Weights(exponentials, sum), sequence), value), max, sum};
}

AttentionGradients AttendBackward(const Sequence& sequence, const AttentionResult& forward, const at::Tensor& dy) {
  const auto key = ForEachHead(sequence.key, sequence.query);
  const auto value = ForEachHead(sequence.value, sequence.query);
  const auto weights = Weights(Exponentials(Scores(sequence, key), forward.max), forward.sum);
  const auto dValue = at::bmm(Dropped(weights, sequence).transpose(1, 2), dy);
  const auto dWeights = Dropped(at::bmm(dy, value.transpose(1, 2)), sequence);
  const auto along = (dy * forward.out).sum(2, /*keepdim=*/true);  // equals the sum of weights * dWeights
  const auto dScores = weights * (dWeights - along) * sequence.scale;
  return {at::bmm(dScores, key), OverSharedHeads(at::bmm(dScores.transpose(1, 2), sequence.query), sequence.key),
          OverSharedHeads(dValue, sequence.value), dScores};
}

}  // namespace twin::opapi
