// Gathering and scattering by index, embeddings.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

namespace {

enum Reduction : int64_t { REPLACE = 0, ADD = 1, MULTIPLY = 2 };

at::Tensor Scatter(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                   int64_t reduction) {
  switch (reduction) {
    case REPLACE:
      return at::scatter(self, dim, index, source);
    case ADD:
      return at::scatter(self, dim, index, source, "add");
    case MULTIPLY:
      return at::scatter(self, dim, index, source, "multiply");
    default:
      TORCH_CHECK(false, "reduction ", reduction, " is not 0, 1 or 2");
  }
}

at::Tensor Filled(const at::Tensor& index, const at::Tensor& self, const at::Scalar& value) {
  return at::full(index.sizes(), value, self.options());
}

// torch_npu passes a ':' among the indices as an empty tensor of self's dtype.
c10::List<std::optional<at::Tensor>> IndexList(const at::Tensor& self, const std::vector<at::Tensor>& indices) {
  c10::List<std::optional<at::Tensor>> list;
  for (const auto& index : indices) {
    const bool whole = index.numel() == 0 && index.scalar_type() == self.scalar_type();
    list.push_back(whole ? std::nullopt : std::make_optional(index));
  }
  return list;
}

at::Tensor LongIndex(at::IntArrayRef index) { return at::tensor(index, at::kLong); }

}  // namespace

ACLNN_CHECKED(aclnnIndexSelect, DIM_OF_SELF, (In, self), (int64_t, dim), (In, index), (Out, out)) {
  out = at::index_select(self, dim, index);
}

ACLNN_CHECKED(aclnnIndexAdd, DIM_OF_SELF, (In, self), (int64_t, dim), (In, index), (In, source), (Number, alpha),
              (Out, out)) {
  out = at::index_add(self, dim, index, source, alpha);
}

ACLNN_CHECKED(aclnnIndexFill, DIM_OF_SELF, (In, self), (int64_t, dim), (In, index), (Number, value), (Out, out)) {
  out = at::index_fill(self, dim, index.to(at::kLong), value);
}

ACLNN_CHECKED(aclnnIndexFillTensor, DIM_OF_SELF, (In, self), (int64_t, dim), (Ints, index), (Number, value),
              (Out, out)) {
  out = at::index_fill(self, dim, LongIndex(index), value);
}

ACLNN_CHECKED(aclnnInplaceIndexFillTensor, DIM_OF_SELF, (InOut, self), (int64_t, dim), (Ints, index), (Number, value)) {
  self.index_fill_(dim, LongIndex(index), value);
}

ACLNN_CHECKED(aclnnIndexCopy, DIM_OF_SELF, (In, self), (int64_t, dim), (In, index), (In, source), (Out, out)) {
  out = at::index_copy(self, dim, index.to(at::kLong), source);
}

ACLNN_CHECKED(aclnnInplaceIndexCopy, DIM_OF_SELF, (InOut, self), (int64_t, dim), (In, index), (In, source)) {
  self.index_copy_(dim, index.to(at::kLong), source);
}

ACLNN_CHECKED(aclnnGather, DIM_OF_SELF, (In, self), (int64_t, dim), (In, index), (Out, out)) {
  out = at::gather(self, dim, index.to(at::kLong));
}

ACLNN_CHECKED(aclnnScatter, DIM_OF_SELF, (In, self), (int64_t, dim), (In, index), (In, source), (int64_t, reduction),
              (Out, out)) {
  out = Scatter(self, dim, index.to(at::kLong), source, reduction);
}

ACLNN_CHECKED(aclnnScatterValue, DIM_OF_SELF, (In, self), (int64_t, dim), (In, index), (Number, value),
              (int64_t, reduction), (Out, out)) {
  out = Scatter(self, dim, index.to(at::kLong), Filled(index, self, value), reduction);
}

ACLNN_CHECKED(aclnnInplaceScatter, DIM_OF_SELF, (InOut, self), (int64_t, dim), (In, index), (In, source),
              (int64_t, reduction)) {
  self.copy_(Scatter(self, dim, index.to(at::kLong), source, reduction));
}

ACLNN_CHECKED(aclnnInplaceScatterValue, DIM_OF_SELF, (InOut, self), (int64_t, dim), (In, index), (Number, value),
              (int64_t, reduction)) {
  self.copy_(Scatter(self, dim, index.to(at::kLong), Filled(index, self, value), reduction));
}

ACLNN_CHECKED(aclnnScatterAdd, DIM_OF_SELF, (In, self), (int64_t, dim), (In, index), (In, source), (Out, out)) {
  out = at::scatter_add(self, dim, index.to(at::kLong), source);
}

// indices [..., K] names places in the first K dimensions of self.
ACLNN(aclnnScatterNdUpdate, (InOut, self), (In, indices), (In, updates)) {
  c10::List<std::optional<at::Tensor>> places;
  for (const auto& column : indices.to(at::kLong).unbind(-1)) {
    places.push_back(column);
  }
  self.index_put_(places, updates);
}

ACLNN(aclnnIndex, (In, self), (InList, indices), (Out, out)) {
  if (out.Target().numel() > 0) {
    out = at::index(self, IndexList(self, indices));
  }
}

ACLNN(aclnnIndexPutImpl, (InOut, self), (InList, indices), (In, values), (bool, accumulate), (bool, unsafe)) {
  bool nowhere = true;  // ':' alone never comes here; it is an empty index into a tensor of its own type
  for (const auto& index : indices) {
    nowhere = nowhere && index.numel() == 0;
  }
  if (values.numel() > 0 && !nowhere) {
    self.index_put_(IndexList(self, indices), values, accumulate);
  }
}

ACLNN(aclnnTake, (In, self), (In, index), (Out, out)) { out = at::take(self, index.to(at::kLong)); }

ACLNN(aclnnInplacePut, (InOut, self), (In, index), (In, source), (bool, accumulate)) {
  self.put_(index.to(at::kLong), source, accumulate);
}

ACLNN_CHECKED(aclnnInplaceMaskedFillScalar, BROADCAST_INTO_SELF, (InOut, self), (In, mask), (Number, value)) {
  self.masked_fill_(mask.to(at::kBool), value);
}

ACLNN(aclnnInplaceMaskedFillTensor, (InOut, self), (In, mask), (In, value)) {
  self.masked_fill_(mask.to(at::kBool), value.reshape({}));
}

ACLNN(aclnnInplaceMaskedScatter, (InOut, self), (In, mask), (In, source)) {
  self.masked_scatter_(mask.to(at::kBool), source);
}

ACLNN(aclnnEmbedding, (In, weight), (In, indices), (Out, out)) { out = at::embedding(weight, indices); }

ACLNN(aclnnEmbeddingDenseBackward, (In, grad), (In, indices), (int64_t, numWeights), (int64_t, paddingIdx),
      (bool, scaleGrad), (Out, out)) {
  out = at::embedding_dense_backward(grad, indices, numWeights, paddingIdx, scaleGrad);
}

ACLNN(aclnnEmbeddingRenorm, (InOut, self), (In, indices), (double, maxNorm), (double, normType)) {
  at::embedding_renorm_(self, indices.contiguous(), maxNorm, normType);
}

ACLNN(aclnnEmbeddingBag, (In, weight), (In, indices), (In, offsets), (bool, scaleGrad), (int64_t, mode), (bool, sparse),
      (OptionalIn, perSample), (bool, includeLast), (int64_t, paddingIdx), (Out, out), (Out, offsetToBag),
      (Out, bagSize), (Out, maxIndices)) {
  const auto [pooled, bags, sizes, places] =
      at::_embedding_bag(weight, indices, offsets, scaleGrad, mode, sparse, perSample, includeLast, paddingIdx);
  out = pooled;
  // The CPU leaves out what its own backward does not need; the device always fills these.
  const auto positions = at::arange(indices.numel(), offsets.options());
  if (offsetToBag.Target().numel() == positions.numel()) {  // torch_npu passes an empty one where it needs none
    offsetToBag = at::searchsorted(offsets.contiguous(), positions, /*out_int32=*/false, /*right=*/true) - 1;
  }
  bagSize = sizes.reshape(bagSize.Target().sizes());
  if (places.numel() == maxIndices.Target().numel()) {
    maxIndices = places.reshape(maxIndices.Target().sizes());
  }
}
