// Activations with a threshold, and the remaining ones of torch.nn: shrinking, hard and smooth forms, learned slopes.
#include <ATen/CPUGeneratorImpl.h>

#include "call.h"
#include "check.h"
#include "patterns.h"
#include "twin/seed.h"

using namespace twin::opapi;

UNARY(aclnnMish, at::mish)

ACLNN(aclnnInplaceMish, (InOut, self)) {
  auto target = self;
  at::mish_(target);
}

ACLNN(aclnnInplaceHardswish, (InOut, self)) {
  auto target = self;
  at::hardswish_(target);
}

ACLNN(aclnnInplaceHardsigmoid, (InOut, self)) {
  auto target = self;
  at::hardsigmoid_(target);
}

#define GRADIENT(NAME, FUNCTION) \
  ACLNN_CHECKED(NAME, BROADCAST, (In, gradOut), (In, self), (Out, gradIn)) { gradIn = FUNCTION(gradOut, self); }
GRADIENT(aclnnMishBackward, at::mish_backward)
GRADIENT(aclnnHardswishBackward, at::hardswish_backward)
GRADIENT(aclnnHardsigmoidBackward, at::hardsigmoid_backward)

#define SHRINK(NAME, FUNCTION)                                                                             \
  ACLNN_CHECKED(NAME, BROADCAST, (In, self), (Number, lambd), (Out, out)) { out = FUNCTION(self, lambd); } \
  ACLNN_CHECKED(NAME##Backward, BROADCAST, (In, gradOut), (In, self), (Number, lambd), (Out, gradIn)) {    \
    gradIn = FUNCTION##_backward(gradOut, self, lambd);                                                    \
  }
SHRINK(aclnnHardshrink, at::hardshrink)
SHRINK(aclnnSoftshrink, at::softshrink)

ACLNN_CHECKED(aclnnThreshold, BROADCAST, (In, self), (Number, threshold), (Number, value), (Out, out)) {
  out = at::threshold(self, threshold, value);
}

ACLNN(aclnnInplaceThreshold, (InOut, self), (Number, threshold), (Number, value)) {
  auto target = self;
  at::threshold_(target, threshold, value);
}

ACLNN(aclnnInplaceHardtanh, (InOut, self), (Number, min), (Number, max)) {
  auto target = self;
  at::hardtanh_(target, min, max);
}

ACLNN_CHECKED(aclnnCelu, BROADCAST, (In, self), (Number, alpha), (Out, out)) { out = at::celu(self, alpha); }

ACLNN(aclnnInplaceCelu, (InOut, self), (Number, alpha)) {
  auto target = self;
  at::celu_(target, alpha);
}

// A weight for all channels or for each; torch_npu has shaped it to self's dimensions or left it flat.
static at::Tensor Slopes(const at::Tensor& self, const at::Tensor& weight) {
  if (weight.numel() == 1 || weight.dim() == self.dim()) {
    return weight.numel() == 1 ? weight.reshape({}) : weight;
  }
  std::vector<int64_t> sizes(static_cast<size_t>(self.dim()), 1);
  sizes.at(self.dim() > 1 ? 1 : 0) = weight.numel();
  return weight.reshape(sizes);
}

ACLNN(aclnnPrelu, (In, self), (In, weight), (Out, out)) { out = at::_prelu_kernel(self, Slopes(self, weight)); }

ACLNN(aclnnPreluBackward, (In, gradOutput), (In, self), (In, weight), (Out, gradInput), (Out, gradWeight)) {
  const auto slopes = Slopes(self, weight);
  const auto [ofSelf, ofWeight] = at::_prelu_kernel_backward(gradOutput, self, slopes.expand_as(self));
  gradInput = ofSelf;
  const auto& target = gradWeight.Target();
  gradWeight = target.sizes() == self.sizes() ? ofWeight : ofWeight.sum_to_size(slopes.sizes()).reshape(target.sizes());
}

// In training the slope of each negative element is drawn between the bounds and kept in `noise`, 1 elsewhere.
static at::Tensor RandomRelu(const at::Tensor& self, const at::Tensor& noise, const at::Scalar& lower,
                             const at::Scalar& upper, bool training, int64_t seed, int64_t offset) {
  auto slopes = at::empty(noise.sizes(), noise.options());
  const auto generator =
      at::detail::createCPUGenerator(twin::CpuSeed(static_cast<uint64_t>(seed), static_cast<uint64_t>(offset)));
  const auto result = at::rrelu_with_noise(self, slopes, lower, upper, training, generator);
  if (training) {
    noise.copy_(slopes);
  }
  return result;
}

ACLNN(aclnnRReluWithNoise, (In, self), (InOut, noise), (Number, lower), (Number, upper), (bool, training),
      (int64_t, seed), (int64_t, offset), (Out, out)) {
  out = RandomRelu(self, noise, lower, upper, training, seed, offset);
}

ACLNN(aclnnInplaceRReluWithNoise, (InOut, self), (InOut, noise), (Number, lower), (Number, upper), (bool, training),
      (int64_t, seed), (int64_t, offset)) {
  self.copy_(RandomRelu(self, noise, lower, upper, training, seed, offset));
}
