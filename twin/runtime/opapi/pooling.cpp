// Pooling over windows and to a given size. An absent divisor is 0.
#include "call.h"
#include "check.h"
#include "pooling_mask.h"

using namespace twin::opapi;

namespace {

std::optional<int64_t> Divisor(int64_t divisor) {
  return divisor == 0 ? std::nullopt : std::optional<int64_t>(divisor);
}

}  // namespace

ACLNN(aclnnAvgPool2d, (In, self), (Ints, kernelSize), (Ints, strides), (Ints, paddings), (bool, ceilMode),
      (bool, countIncludePad), (int64_t, divisorOverride), (int8_t, cubeMathType), (Out, out)) {
  out = at::avg_pool2d(self, kernelSize, strides, paddings, ceilMode, countIncludePad, Divisor(divisorOverride));
}

ACLNN(aclnnAvgPool2dBackward, (In, gradOutput), (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding),
      (bool, ceilMode), (bool, countIncludePad), (int64_t, divisorOverride), (int8_t, cubeMathType), (Out, gradInput)) {
  gradInput = at::avg_pool2d_backward(gradOutput, self, kernelSize, stride, padding, ceilMode, countIncludePad,
                                      Divisor(divisorOverride));
}

ACLNN(aclnnAvgPool3d, (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding), (bool, ceilMode),
      (bool, countIncludePad), (int64_t, divisorOverride), (Out, out)) {
  out = at::avg_pool3d(self, kernelSize, stride, padding, ceilMode, countIncludePad, Divisor(divisorOverride));
}

ACLNN(aclnnAvgPool3dBackward, (In, gradOutput), (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding),
      (bool, ceilMode), (bool, countIncludePad), (int64_t, divisorOverride), (Out, gradInput)) {
  gradInput = at::avg_pool3d_backward(gradOutput, self, kernelSize, stride, padding, ceilMode, countIncludePad,
                                      Divisor(divisorOverride));
}

ACLNN(aclnnMaxPool2dWithMask, (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding), (Ints, dilation),
      (bool, ceilMode), (Out, out), (Out, indices)) {
  const auto [best, places] = at::max_pool2d_with_indices(self, kernelSize, stride, padding, dilation, ceilMode);
  const PoolingMask mask(self, kernelSize, stride, padding, dilation, best);
  mask.Check(indices.Target());
  out = best;
  indices = mask.FromIndices(places, indices.Target().sizes());
}

ACLNN(aclnnMaxPool2dWithMaskBackward, (In, gradOutput), (In, self), (In, indices), (Ints, kernelSize), (Ints, stride),
      (Ints, padding), (Ints, dilation), (bool, ceilMode), (Out, gradInput)) {
  const PoolingMask mask(self, kernelSize, stride, padding, dilation, gradOutput);
  mask.Check(indices);
  gradInput = at::max_pool2d_with_indices_backward(gradOutput, self, kernelSize, stride, padding, dilation, ceilMode,
                                                   mask.ToIndices(indices, gradOutput.sizes()));
}

ACLNN(aclnnMaxPool3dWithArgmax, (In, self), (Ints, kernelSize), (Ints, stride), (Ints, padding), (Ints, dilation),
      (bool, ceilMode), (Out, out), (Out, indices)) {
  const auto [best, places] = at::max_pool3d_with_indices(self, kernelSize, stride, padding, dilation, ceilMode);
  out = best;
  indices = places;
}

ACLNN(aclnnMaxPool3dWithArgmaxBackward, (In, gradOutput), (In, self), (In, indices), (Ints, kernelSize), (Ints, stride),
      (Ints, padding), (Ints, dilation), (bool, ceilMode), (Out, gradInput)) {
  gradInput = at::max_pool3d_with_indices_backward(gradOutput, self, kernelSize, stride, padding, dilation, ceilMode,
                                                   indices.to(at::kLong));
}

ACLNN(aclnnAdaptiveAvgPool2d, (In, self), (Ints, outputSize), (Out, out)) {
  out = at::adaptive_avg_pool2d(self, outputSize);
}

ACLNN(aclnnAdaptiveAvgPool2dBackward, (In, gradOutput), (In, self), (Out, out)) {
  out = at::_adaptive_avg_pool2d_backward(gradOutput, self);
}

ACLNN(aclnnAdaptiveAvgPool3d, (In, self), (Ints, outputSize), (Out, out)) {
  out = at::adaptive_avg_pool3d(self, outputSize);
}

ACLNN(aclnnAdaptiveAvgPool3dBackward, (In, gradOutput), (In, self), (Out, out)) {
  out = at::_adaptive_avg_pool3d_backward(gradOutput, self);
}

#define ADAPTIVE_MAX(NAME, FUNCTION)                                                     \
  ACLNN(NAME, (In, self), (Ints, outputSize), (Out, out), (Out, indices)) {              \
    const auto [best, places] = FUNCTION(self, outputSize);                              \
    out = best;                                                                          \
    indices = places;                                                                    \
  }                                                                                      \
  ACLNN(NAME##Backward, (In, gradOutput), (In, self), (In, indices), (Out, gradInput)) { \
    gradInput = FUNCTION##_backward(gradOutput, self, indices.to(at::kLong));            \
  }
ADAPTIVE_MAX(aclnnAdaptiveMaxPool2d, at::adaptive_max_pool2d)
ADAPTIVE_MAX(aclnnAdaptiveMaxPool3d, at::adaptive_max_pool3d)

ACLNN(aclnnMaxUnpool2d, (In, self), (In, indices), (Ints, outputSize), (Out, out)) {
  out = at::max_unpool2d(self, indices.to(at::kLong), outputSize);
}

ACLNN(aclnnMaxUnpool3d, (In, self), (In, indices), (Ints, outputSize), (Ints, stride), (Ints, padding), (Out, out)) {
  out = at::max_unpool3d(self, indices.to(at::kLong), outputSize, stride, padding);
}
