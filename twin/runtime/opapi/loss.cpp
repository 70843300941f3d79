// Losses and their gradients. reduction: 0 none, 1 mean, 2 sum.
#include <algorithm>

#include "call.h"
#include "check.h"

using namespace twin::opapi;

namespace {

void CheckReduction(int64_t reduction) {
  if (reduction < at::Reduction::None || reduction >= at::Reduction::END) {
    throw Refusal(INVALID_ARGUMENT, "reduction " + std::to_string(reduction) + " is not 0, 1 or 2");
  }
}

// A reduced loss comes as a scalar or as one element.
at::Tensor AsLoss(const at::Tensor& value, int64_t reduction) {
  return reduction == at::Reduction::None ? value : value.reshape({});
}

void TakeLoss(const at::Tensor& loss, const at::Tensor& total, int64_t reduction, const Output& out,
              const Output& totalWeight) {
  out = loss.reshape(out.Target().sizes());
  if (reduction != at::Reduction::None) {
    totalWeight = total.reshape(totalWeight.Target().sizes());
  }
}

// For losses of (self, target, ..., reduction, ...): the only int64 that comes first is the reduction.
struct PairwiseLoss {
  template <class... Rest>
  void operator()(const HeldInput& self, const HeldInput& target, int64_t reduction, const Rest&...) const {
    if (self.Shape() != target.Shape()) {
      throw Refusal(INVALID_ARGUMENT, std::string(target.argument) + " has shape " + ShapeText(target.Shape()) + ", " +
                                          self.argument + " " + ShapeText(self.Shape()));
    }
    CheckReduction(reduction);
  }
  template <class... Rest>
  void operator()(const HeldInput& self, const HeldInput& target, const HeldInput&, int64_t reduction,
                  const Rest&...) const {
    (*this)(self, target, reduction);
  }
  template <class... Rest>
  void operator()(const HeldInput& self, const HeldInput& target, const HeldInput&, const HeldInput&, int64_t reduction,
                  const Rest&...) const {
    (*this)(self, target, reduction);
  }
};
constexpr PairwiseLoss PAIRWISE_LOSS;

}  // namespace

ACLNN_CHECKED(aclnnBinaryCrossEntropyWithLogits, PAIRWISE_LOSS, (In, self), (In, target), (OptionalIn, weight),
              (OptionalIn, posWeight), (int64_t, reduction), (Out, out)) {
  out = at::binary_cross_entropy_with_logits(self, target, weight, posWeight, reduction);
}

ACLNN(aclnnBinaryCrossEntropyWithLogitsBackward, (In, gradOut), (In, self), (In, target), (OptionalIn, weight),
      (OptionalIn, posWeight), (int64_t, reduction), (Out, out)) {
  auto slope = at::sigmoid(self) - target;
  if (posWeight) {
    const auto positive = *posWeight * target;
    slope = (positive + 1 - target) * at::sigmoid(self) - positive;
  }
  auto grad = slope * gradOut;
  if (weight) {
    grad = grad * *weight;
  }
  out = reduction == at::Reduction::Mean ? grad / self.numel() : grad;
}

ACLNN_CHECKED(aclnnBinaryCrossEntropy, PAIRWISE_LOSS, (In, self), (In, target), (OptionalIn, weight),
              (int64_t, reduction), (Out, out)) {
  out = at::binary_cross_entropy(self, target, weight, reduction);
}

ACLNN(aclnnBinaryCrossEntropyBackward, (In, gradOut), (In, self), (In, target), (OptionalIn, weight),
      (int64_t, reduction), (Out, out)) {
  out = at::binary_cross_entropy_backward(gradOut, self, target, weight, reduction);
}

ACLNN(aclnnMseLoss, (In, self), (In, target), (int64_t, reduction), (Out, out)) {
  out = at::mse_loss(self, target, reduction);
}

ACLNN(aclnnMseLossBackward, (In, gradOut), (In, self), (In, target), (int64_t, reduction), (Out, out)) {
  out = at::mse_loss_backward(gradOut, self, target, reduction);
}

ACLNN(aclnnL1Loss, (In, self), (In, target), (int64_t, reduction), (Out, out)) {
  out = at::l1_loss(self, target, reduction);
}

ACLNN(aclnnL1LossBackward, (In, gradOut), (In, self), (In, target), (int64_t, reduction), (Out, gradIn)) {
  const auto grad = at::sign(self - target) * gradOut;
  gradIn = reduction == at::Reduction::Mean ? grad / self.numel() : grad;
}

ACLNN(aclnnSmoothL1Loss, (In, self), (In, target), (int64_t, reduction), (float, beta), (Out, out)) {
  out = at::smooth_l1_loss(self, target, reduction, beta);
}

ACLNN(aclnnSmoothL1LossBackward, (In, gradOut), (In, self), (In, target), (int64_t, reduction), (float, beta),
      (Out, gradIn)) {
  gradIn = at::smooth_l1_loss_backward(gradOut, self, target, reduction, beta);
}

ACLNN(aclnnNLLLoss, (In, self), (In, target), (In, weight), (int64_t, reduction), (int64_t, ignoreIndex), (Out, out),
      (Out, totalWeight)) {
  const auto [loss, total] = at::nll_loss_forward(self, target.to(at::kLong), weight, reduction, ignoreIndex);
  TakeLoss(loss, total, reduction, out, totalWeight);
}

ACLNN(aclnnNLLLossBackward, (In, gradOut), (In, self), (In, target), (In, weight), (int64_t, reduction),
      (int64_t, ignoreIndex), (In, totalWeight), (Out, gradIn)) {
  gradIn = at::nll_loss_backward(AsLoss(gradOut, reduction), self, target.to(at::kLong), weight, reduction, ignoreIndex,
                                 AsLoss(totalWeight, reduction));
}

// self[N, C, H, W], target[N, H, W]
ACLNN(aclnnNLLLoss2d, (In, self), (In, target), (In, weight), (int64_t, reduction), (int64_t, ignoreIndex), (Out, out),
      (Out, totalWeight)) {
  const auto [loss, total] = at::nll_loss2d_forward(self, target.to(at::kLong), weight, reduction, ignoreIndex);
  TakeLoss(loss, total, reduction, out, totalWeight);
}

ACLNN(aclnnNLLLoss2dBackward, (In, gradOut), (In, self), (In, target), (In, weight), (int64_t, reduction),
      (int64_t, ignoreIndex), (In, totalWeight), (Out, gradIn)) {
  gradIn = at::nll_loss2d_backward(AsLoss(gradOut, reduction), self, target.to(at::kLong), weight, reduction,
                                   ignoreIndex, AsLoss(totalWeight, reduction));
}

ACLNN(aclnnKlDiv, (In, self), (In, target), (int64_t, reduction), (bool, logTarget), (Out, out)) {
  out = at::kl_div(self, target, reduction, logTarget);
}

ACLNN(aclnnKlDivBackward, (In, gradOut), (In, self), (In, target), (int64_t, reduction), (bool, logTarget),
      (Out, out)) {
  // d/dself of target * (log target - self), without the positions that the forward pass leaves at zero.
  const auto slope = logTarget ? -at::exp(target) : at::where(target > 0, -target, at::zeros_like(target));
  const auto grad = slope * gradOut;
  out = reduction == at::Reduction::Mean ? grad / self.numel() : grad;
}

ACLNN(aclnnSoftMarginLoss, (In, self), (In, target), (int64_t, reduction), (Out, out)) {
  out = at::soft_margin_loss(self, target, reduction);
}

ACLNN(aclnnSoftMarginLossBackward, (In, gradOutput), (In, self), (In, target), (int64_t, reduction), (Out, gradInput)) {
  gradInput = at::soft_margin_loss_backward(gradOutput, self, target, reduction);
}

ACLNN(aclnnMultilabelMarginLoss, (In, self), (In, target), (int64_t, reduction), (Out, out), (Out, isTarget)) {
  const auto [loss, targets] = at::multilabel_margin_loss_forward(self, target, reduction);
  out = loss;
  isTarget = targets;
}

ACLNN(aclnnCtcLoss, (In, logProbs), (In, targets), (Ints, inputLengths), (Ints, targetLengths), (int64_t, blank),
      (bool, zeroInfinity), (Out, negLogLikelihood), (Out, logAlpha)) {
  const auto [loss, alpha] = at::_ctc_loss(logProbs, targets, inputLengths, targetLengths, blank, zeroInfinity);
  negLogLikelihood = loss;
  // The device's last dimension is padded to a multiple of 8.
  auto padded = at::zeros(logAlpha.Target().sizes(), alpha.options());
  padded.narrow(-1, 0, alpha.size(-1)).copy_(alpha);
  logAlpha = padded;
}

ACLNN(aclnnCtcLossBackward, (In, gradOut), (In, logProbs), (In, targets), (Ints, inputLengths), (Ints, targetLengths),
      (In, negLogLikelihood), (In, logAlpha), (int64_t, blank), (bool, zeroInfinity), (Out, out)) {
  const int64_t longest = *std::max_element(targetLengths.begin(), targetLengths.end());
  out = at::_ctc_loss_backward(gradOut, logProbs, targets, inputLengths, targetLengths, negLogLikelihood,
                               logAlpha.narrow(-1, 0, 2 * longest + 1).contiguous(), blank, zeroInfinity);
}
