#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <optional>

#include "rows/kernels.h"

namespace hybrid_torchrec {

// The optimizers of hybrid_torchrec/optimizers.py, by their numbers.
enum class OptimizerKind : int64_t { kSgd = 0, kAdagrad = 1, kRowwiseAdagrad = 2, kAdam = 3, kAdamW = 4, kLamb = 5 };

struct Optimizer {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 0;
  double eps = 0;
  double beta1 = 0;
  double beta2 = 0;
  double weight_decay = 0;
  int64_t iteration = 1;

  bool adaptive() const { return kind >= OptimizerKind::kAdam; }
  bool rowwise() const { return kind == OptimizerKind::kRowwiseAdagrad; }
  int64_t momenta() const { return kind == OptimizerKind::kSgd ? 0 : adaptive() ? 2 : 1; }
  // Decay that is part of the gradient (L2), not of the step.
  bool decays_gradient() const { return kind <= OptimizerKind::kAdam && weight_decay != 0; }

  // The update writes where it reads the gradient.
  bool writes_gradient() const { return decays_gradient() || kind == OptimizerKind::kLamb; }

  rows::Step step() const {
    rows::Step step{};
    step.learning_rate = static_cast<float>(learning_rate);
    step.eps = static_cast<float>(eps);
    step.beta1 = static_cast<float>(beta1);
    step.beta2 = static_cast<float>(beta2);
    step.rest1 = static_cast<float>(1.0 - beta1);
    step.rest2 = static_cast<float>(1.0 - beta2);
    step.weight_decay = decays_gradient() ? 0.0f : static_cast<float>(weight_decay);
    if (adaptive()) {
      const auto iterations = static_cast<double>(iteration);
      step.correction1 = static_cast<float>(1.0 / (1.0 - std::pow(beta1, iterations)));
      step.correction2 = static_cast<float>(1.0 / (1.0 - std::pow(beta2, iterations)));
    }
    return step;
  }

  rows::Update update(const rows::Kernels& kernels) const {
    if (kind == OptimizerKind::kLamb) return kernels.lamb;
    if (kind == OptimizerKind::kAdamW) return kernels.shared->update[gr_ops::rows::kAdam];
    return kernels.shared->update[static_cast<int64_t>(kind)];
  }
};

}  // namespace hybrid_torchrec
