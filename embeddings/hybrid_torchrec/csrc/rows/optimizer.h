#pragma once

#include <cmath>

#include "rows/optimizer_kinds.h"

namespace hybrid_torchrec {

struct Optimizer {
  const OptimizerKind& kind;
  double learning_rate = 0;
  double eps = 0;
  double beta1 = 0;
  double beta2 = 0;
  double weight_decay = 0;
  int64_t iteration = 1;

  bool rowwise() const { return kind.rowwise; }
  bool decays_gradient() const { return kind.decay_is_gradient && weight_decay != 0; }
  row_math::Update update(const row_math::RowKernels& kernels) const { return kernels.updates.*kind.update; }

  row_math::Step step() const {
    row_math::Step step{};
    step.learning_rate = static_cast<float>(learning_rate);
    step.eps = static_cast<float>(eps);
    step.beta1 = static_cast<float>(beta1);
    step.beta2 = static_cast<float>(beta2);
    step.rest1 = static_cast<float>(1.0 - beta1);
    step.rest2 = static_cast<float>(1.0 - beta2);
    step.weight_decay = decays_gradient() ? 0.0f : static_cast<float>(weight_decay);
    if (kind.corrects_moments) {
      const auto iterations = static_cast<double>(iteration);
      step.correction1 = static_cast<float>(1.0 / (1.0 - std::pow(beta1, iterations)));
      step.correction2 = static_cast<float>(1.0 / (1.0 - std::pow(beta2, iterations)));
    }
    return step;
  }
};

}  // namespace hybrid_torchrec
