// Fused optimizer steps and automatic mixed precision.
#include "call.h"
#include "check.h"

using namespace twin::opapi;

// AdamW (Loshchilov and Hutter, 2019) with decoupled weight decay. `step` counts the steps before this one.
ACLNN(aclnnApplyAdamWV2, (InOut, variable), (InOut, firstMoment), (InOut, secondMoment), (OptionalIn, maxSecondMoment),
      (In, grad), (In, step), (float, learningRate), (float, beta1), (float, beta2), (float, weightDecay), (float, eps),
      (bool, amsgrad), (bool, maximize)) {
  const double count = step.item().toDouble() + 1;
  const auto gradient = maximize ? -grad : grad;
  variable.mul_(1 - static_cast<double>(learningRate) * weightDecay);
  firstMoment.lerp_(gradient.to(firstMoment.scalar_type()), 1 - static_cast<double>(beta1));
  secondMoment.mul_(beta2).addcmul_(gradient, gradient, 1 - static_cast<double>(beta2));
  auto second = secondMoment;
  if (amsgrad) {
    TORCH_CHECK(maxSecondMoment, "amsgrad needs the maximum of the second moment");
    maxSecondMoment->copy_(at::maximum(*maxSecondMoment, secondMoment));
    second = *maxSecondMoment;
  }
  const double correction1 = 1 - std::pow(static_cast<double>(beta1), count);
  const double correction2 = 1 - std::pow(static_cast<double>(beta2), count);
  const auto denominator = at::sqrt(second) / std::sqrt(correction2) + eps;
  variable.addcdiv_(firstMoment, denominator, -learningRate / correction1);
}

// Divides gradients by the loss scale; foundInf becomes 1 if one is not finite.
ACLNN(aclnnForeachNonFiniteCheckAndUnscale, (InList, grads), (InOut, foundInf), (In, invScale)) {
  const auto factor = invScale.reshape({});
  for (const auto& grad : grads) {
    if (!at::isfinite(grad).all().item<bool>()) {
      foundInf.fill_(1);
    }
    grad.mul_(factor);
  }
}

// The loss scale shrinks after a step with overflow and grows after growthInterval steps without.
ACLNN(aclnnAmpUpdateScale, (In, currentScale), (In, growthTracker), (In, foundInf), (double, growthFactor),
      (double, backoffFactor), (int64_t, growthInterval), (Out, newScale), (Out, newTracker)) {
  auto scale = currentScale.clone();
  auto tracker = growthTracker.clone();
  at::_amp_update_scale_(scale, tracker, foundInf, growthFactor, backoffFactor, growthInterval);
  newScale = scale;
  newTracker = tracker;
}
