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
    scores = sequence.pseIsScaled ? (scores + sequence.pse) * sequence.scale : scores * sequence.scale + sequence.pse;
  } else {
    scores = scores * sequence.scale;
  }
  return sequence.masked.defined() ? scores.masked_fill(sequence.masked, -std::numeric_limits<float>::infinity())
                                   : scores;
}

at::Tensor Largest(const at::Tensor& scores) {
  return scores.size(2) > 0
             ? scores.amax(2)
             : scores.new_full({scores.size(0), scores.size(1)}, -std::numeric_limits<float>::infinity());
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
  const auto max = Largest(scores).to(at::kFloat).to(scores.scalar_type());
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
  const auto dAdded = weights * (dWeights - along);
  const auto dProducts = dAdded * sequence.scale;
  return {at::bmm(dProducts, key), OverSharedHeads(at::bmm(dProducts.transpose(1, 2), sequence.query), sequence.key),
          OverSharedHeads(dValue, sequence.value), sequence.pseIsScaled ? dProducts : dAdded};
}

}  // namespace twin::opapi
