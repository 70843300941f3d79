// Reductions and scans. An empty list of dims means all of them.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

ACLNN_CHECKED(aclnnReduceSum, DIMS_OF_SELF, (In, self), (OptionalInts, dims), (bool, keepdim), (Type, dtype),
              (Out, out)) {
  out = at::sum(self, dims, keepdim, dtype);
}

ACLNN_CHECKED(aclnnReduceNansum, DIMS_OF_SELF, (In, self), (OptionalInts, dims), (bool, keepdim), (Type, dtype),
              (Out, out)) {
  out = at::nansum(self, dims, keepdim, dtype);
}

ACLNN_CHECKED(aclnnMean, DIMS_OF_SELF, (In, self), (OptionalInts, dims), (bool, keepdim), (Type, dtype), (Out, out)) {
  out = at::mean(self, dims, keepdim, dtype);
}

ACLNN(aclnnLinalgVectorNorm, (In, self), (Number, order), (OptionalInts, dims), (bool, keepdim), (Type, dtype),
      (Out, out)) {
  const auto all = dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
  out = at::linalg_vector_norm(self, order, all, keepdim, dtype);
}

ACLNN(aclnnNorm, (In, self), (Number, order), (OptionalInts, dims), (bool, keepdim), (Out, out)) {
  out = at::norm(self, order, dims, keepdim);
}

ACLNN(aclnnProd, (In, self), (Type, dtype), (Out, out)) { out = at::prod(self, dtype); }

ACLNN_CHECKED(aclnnProdDim, DIM_OF_SELF, (In, self), (int64_t, dim), (bool, keepdim), (Type, dtype), (Out, out)) {
  out = at::prod(self, dim, keepdim, dtype);
}

ACLNN(aclnnMax, (In, self), (Out, out)) { out = at::max(self); }
ACLNN(aclnnMin, (In, self), (Out, out)) { out = at::min(self); }
ACLNN(aclnnMedian, (In, self), (Out, out)) { out = at::median(self); }
ACLNN(aclnnNanMedian, (In, self), (Out, out)) { out = at::nanmedian(self); }
ACLNN(aclnnTrace, (In, self), (Out, out)) { out = at::trace(self); }

#define WITH_INDICES(NAME, FUNCTION)                                                                             \
  ACLNN_CHECKED(NAME, DIM_OF_SELF, (In, self), (int64_t, dim), (bool, keepdim), (Out, values), (Out, indices)) { \
    const auto [best, place] = FUNCTION(self, dim, keepdim);                                                     \
    values = best;                                                                                               \
    indices = place;                                                                                             \
  }
WITH_INDICES(aclnnMaxDim, at::max)
WITH_INDICES(aclnnMinDim, at::min)
WITH_INDICES(aclnnMedianDim, at::median)
WITH_INDICES(aclnnNanMedianDim, at::nanmedian)

ACLNN_CHECKED(aclnnAmax, DIMS_OF_SELF, (In, self), (OptionalInts, dims), (bool, keepdim), (Out, out)) {
  out = at::amax(self, dims, keepdim);
}

ACLNN_CHECKED(aclnnAmin, DIMS_OF_SELF, (In, self), (OptionalInts, dims), (bool, keepdim), (Out, out)) {
  out = at::amin(self, dims, keepdim);
}

ACLNN(aclnnAminmaxAll, (In, self), (Out, min), (Out, max)) {
  min = at::min(self);
  max = at::max(self);
}

ACLNN_CHECKED(aclnnAminmax, DIMS_OF_SELF, (In, self), (OptionalInts, dims), (bool, keepdim), (Out, min), (Out, max)) {
  min = at::amin(self, dims, keepdim);
  max = at::amax(self, dims, keepdim);
}

ACLNN_CHECKED(aclnnAminmaxDim, DIM_OF_SELF, (In, self), (int64_t, dim), (bool, keepdim), (Out, min), (Out, max)) {
  min = at::amin(self, dim, keepdim);
  max = at::amax(self, dim, keepdim);
}

ACLNN_CHECKED(aclnnArgMax, DIM_OF_SELF, (In, self), (int64_t, dim), (bool, keepdim), (Out, out)) {
  out = at::argmax(self, dim, keepdim).reshape(out.Target().sizes());
}

ACLNN_CHECKED(aclnnArgMin, DIM_OF_SELF, (In, self), (int64_t, dim), (bool, keepdim), (Out, out)) {
  out = at::argmin(self, dim, keepdim).reshape(out.Target().sizes());
}

ACLNN_CHECKED(aclnnAll, DIMS_OF_SELF, (In, self), (OptionalInts, dims), (bool, keepdim), (Out, out)) {
  out = dims.empty() ? at::all(self).reshape(out.Target().sizes()) : at::all(self, dims, keepdim);
}

ACLNN_CHECKED(aclnnAny, DIMS_OF_SELF, (In, self), (OptionalInts, dims), (bool, keepdim), (Out, out)) {
  out = dims.empty() ? at::any(self).reshape(out.Target().sizes()) : at::any(self, dims, keepdim);
}

ACLNN(aclnnStd, (In, self), (OptionalInts, dims), (int64_t, correction), (bool, keepdim), (Out, out)) {
  out = at::std(self, dims, at::Scalar(correction), keepdim);
}

ACLNN(aclnnVarCorrection, (In, self), (OptionalInts, dims), (int64_t, correction), (bool, keepdim), (Out, out)) {
  out = at::var(self, dims, at::Scalar(correction), keepdim);
}

ACLNN(aclnnVarMean, (In, self), (OptionalInts, dims), (int64_t, correction), (bool, keepdim), (Out, var), (Out, mean)) {
  const auto [variance, average] = at::var_mean(self, dims, at::Scalar(correction), keepdim);
  var = variance;
  mean = average;
}

ACLNN(aclnnStdMeanCorrection, (In, self), (OptionalInts, dims), (int64_t, correction), (bool, keepdim), (Out, std),
      (Out, mean)) {
  const auto [deviation, average] = at::std_mean(self, dims, at::Scalar(correction), keepdim);
  std = deviation;
  mean = average;
}

ACLNN_CHECKED(aclnnLogSumExp, DIMS_OF_SELF, (In, self), (Ints, dims), (bool, keepdim), (Out, out)) {
  out = at::logsumexp(self, dims, keepdim);
}

ACLNN_CHECKED(aclnnCumsum, DIM_OF_SELF, (In, self), (int64_t, dim), (Type, dtype), (Out, out)) {
  out = at::cumsum(self, dim, dtype);
}

ACLNN(aclnnCumprod, (In, self), (Number, dim), (Type, dtype), (Out, out)) {
  out = at::cumprod(self, dim.toLong(), dtype);
}

ACLNN_CHECKED(aclnnCummax, DIM_OF_SELF, (In, self), (int64_t, dim), (Out, values), (Out, indices)) {
  const auto [best, place] = at::cummax(self, dim);
  values = best;
  indices = place;
}

ACLNN_CHECKED(aclnnCummin, DIM_OF_SELF, (In, self), (int64_t, dim), (Out, values), (Out, indices)) {
  const auto [best, place] = at::cummin(self, dim);
  values = best;
  indices = place;
}

// Slices along a dimension whose norm is greater than `maxNorm` are scaled to it.
ACLNN(aclnnRenorm, (In, self), (Number, p), (int64_t, dim), (Number, maxNorm), (Out, out)) {
  out = at::renorm(self, p, dim, maxNorm);
}

ACLNN(aclnnInplaceRenorm, (InOut, self), (Number, p), (int64_t, dim), (Number, maxNorm)) {
  self.renorm_(p, dim, maxNorm);
}
