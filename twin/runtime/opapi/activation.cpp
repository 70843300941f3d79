// Activations and their gradients.
#include "call.h"
#include "check.h"
#include "patterns.h"

using namespace twin::opapi;

#define GRADIENT(NAME, FUNCTION) \
  ACLNN_CHECKED(NAME, BROADCAST, (In, gradOut), (In, self), (Out, gradIn)) { gradIn = FUNCTION(gradOut, self); }

UNARY(aclnnRelu, at::relu)
UNARY(aclnnGelu, at::gelu)
UNARY(aclnnSigmoid, at::sigmoid)
UNARY(aclnnLogSigmoid, at::log_sigmoid)
UNARY(aclnnSilu, at::silu)
UNARY(aclnnTanh, at::tanh)
UNARY(aclnnHardswish, at::hardswish)
UNARY(aclnnHardsigmoid, at::hardsigmoid)
UNARY_IN_PLACE(aclnnInplaceRelu, relu_)
UNARY_IN_PLACE(aclnnInplaceSigmoid, sigmoid_)
UNARY_IN_PLACE(aclnnInplaceTanh, tanh_)

GRADIENT(aclnnGeluBackward, at::gelu_backward)
GRADIENT(aclnnSigmoidBackward, at::sigmoid_backward)
GRADIENT(aclnnSiluBackward, at::silu_backward)
GRADIENT(aclnnTanhBackward, at::tanh_backward)

ACLNN(aclnnGeluV2, (In, self), (int64_t, approximate), (Out, out)) {
  out = at::gelu(self, approximate == 1 ? "tanh" : "none");
}

ACLNN(aclnnGeluBackwardV2, (In, gradOut), (In, self), (Text, approximate), (Out, gradIn)) {
  gradIn = at::gelu_backward(gradOut, self, approximate.c_str());
}

ACLNN(aclnnThresholdBackward, (In, gradOut), (In, self), (Number, threshold), (Out, gradIn)) {
  gradIn = at::threshold_backward(gradOut, self, threshold);
}

ACLNN(aclnnSoftplus, (In, self), (Number, beta), (Number, threshold), (Out, out)) {
  out = at::softplus(self, beta, threshold);
}

ACLNN(aclnnSoftplusBackward, (In, gradOut), (In, self), (Number, beta), (Number, threshold), (Out, gradIn)) {
  gradIn = at::softplus_backward(gradOut, self, beta, threshold);
}

ACLNN(aclnnLeakyRelu, (In, self), (Number, slope), (Out, out)) { out = at::leaky_relu(self, slope); }

ACLNN(aclnnInplaceLeakyRelu, (InOut, self), (Number, slope)) {
  auto target = self;
  at::leaky_relu_(target, slope);
}

ACLNN(aclnnLeakyReluBackward, (In, gradOut), (In, self), (Number, slope), (bool, selfIsResult), (Out, gradIn)) {
  gradIn = at::leaky_relu_backward(gradOut, self, slope, selfIsResult);
}

ACLNN(aclnnElu, (In, self), (Number, alpha), (Number, scale), (Number, inputScale), (Out, out)) {
  out = at::elu(self, alpha, scale, inputScale);
}

ACLNN(aclnnInplaceElu, (InOut, self), (Number, alpha), (Number, scale), (Number, inputScale)) {
  auto target = self;
  at::elu_(target, alpha, scale, inputScale);
}

ACLNN(aclnnEluBackward, (In, gradOut), (Number, alpha), (Number, scale), (Number, inputScale), (bool, isResult),
      (In, selfOrResult), (Out, gradIn)) {
  gradIn = at::elu_backward(gradOut, alpha, scale, inputScale, isResult, selfOrResult);
}

ACLNN(aclnnHardtanh, (In, self), (Number, min), (Number, max), (Out, out)) { out = at::hardtanh(self, min, max); }

ACLNN(aclnnHardtanhBackward, (In, gradOut), (In, self), (Number, min), (Number, max), (Out, gradIn)) {
  gradIn = at::hardtanh_backward(gradOut, self, min, max);
}

// The buffer that PyTorch's CPU formula needs is not the device's; both directions work without it.
ACLNN(aclnnLogSigmoidForward, (In, self), (Out, out), (Out, buffer)) { out = at::log_sigmoid(self); }

ACLNN(aclnnLogSigmoidBackward, (In, gradOut), (In, self), (In, buffer), (Out, gradIn)) {
  gradIn = gradOut * at::sigmoid(-self);
}

ACLNN_CHECKED(aclnnSoftmax, DIM_OF_SELF, (In, self), (int64_t, dim), (Out, out)) {
  out = at::softmax(self, dim, out.Target().scalar_type());
}

ACLNN_CHECKED(aclnnLogSoftmax, DIM_OF_SELF, (In, self), (int64_t, dim), (Out, out)) {
  out = at::log_softmax(self, dim, out.Target().scalar_type());
}

ACLNN(aclnnSoftmaxBackward, (In, gradOut), (In, output), (int64_t, dim), (Out, gradIn)) {
  gradIn = at::_softmax_backward_data(gradOut, output, dim, output.scalar_type());
}

ACLNN(aclnnLogSoftmaxBackward, (In, gradOut), (In, output), (int64_t, dim), (Out, gradIn)) {
  gradIn = at::_log_softmax_backward_data(gradOut, output, dim, output.scalar_type());
}

ACLNN_CHECKED(aclnnGlu, DIM_OF_SELF, (In, self), (int64_t, dim), (Out, out)) { out = at::glu(self, dim); }

ACLNN(aclnnGluBackward, (In, gradOut), (In, self), (int64_t, dim), (Out, gradIn)) {
  gradIn = at::glu_backward(gradOut, self, dim);
}

// SwiGLU: silu of the first half times the second half.
ACLNN_CHECKED(aclnnSwiGlu, DIM_OF_SELF, (In, self), (int64_t, dim), (Out, out)) {
  const auto halves = self.chunk(2, dim);
  out = at::silu(halves[0]) * halves[1];
}

ACLNN(aclnnSwiGluGrad, (In, gradOut), (In, self), (int64_t, dim), (Out, gradIn)) {
  const auto halves = self.chunk(2, dim);
  gradIn = at::cat({at::silu_backward(gradOut * halves[1], halves[0]), gradOut * at::silu(halves[0])}, dim);
}
