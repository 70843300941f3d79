#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <optional>
#include <string>

#include "rows/kernels.h"

namespace hybrid_torchrec {

// The optimizers of hybrid_torchrec/optimizers.py, by their numbers.
enum class OptimizerKind : int64_t { kSgd = 0, kAdagrad = 1, kRowwiseAdagrad = 2, kAdam = 3, kAdamW = 4, kLamb = 5 };

// What is known of an optimizer: behaviour is read from here, and never follows from the order of the kinds.
struct OptimizerTraits {
  OptimizerKind kind;
  const char* name;
  int64_t momenta;           // tensors of state
  bool rowwise;              // the first of them has one number a row
  bool corrects_moments;     // by the number of the table's step
  bool decay_is_gradient;    // weight_decay is part of the gradient (L2), not of the step
  bool overwrites_gradient;  // the step writes where it reads the gradient
  rows::Update (*update)(const rows::Kernels& kernels);
};

constexpr OptimizerTraits kOptimizers[] = {
    {OptimizerKind::kSgd, "sgd", 0, false, false, true, false,
     [](const rows::Kernels& kernels) { return kernels.shared->updates.sgd; }},
    {OptimizerKind::kAdagrad, "adagrad", 1, false, false, true, false,
     [](const rows::Kernels& kernels) { return kernels.shared->updates.adagrad; }},
    {OptimizerKind::kRowwiseAdagrad, "rowwise_adagrad", 1, true, false, true, false,
     [](const rows::Kernels& kernels) { return kernels.shared->updates.rowwise_adagrad; }},
    {OptimizerKind::kAdam, "adam", 2, false, true, true, false,
     [](const rows::Kernels& kernels) { return kernels.shared->updates.adam; }},
    {OptimizerKind::kAdamW, "adamw", 2, false, true, false, false,
     [](const rows::Kernels& kernels) { return kernels.shared->updates.adam; }},
    {OptimizerKind::kLamb, "lamb", 2, false, true, false, true,
     [](const rows::Kernels& kernels) { return kernels.lamb; }},
};

// Raises for a kind that is none of the above.
inline const OptimizerTraits& optimizer_traits(const char* op, int64_t kind) {
  std::string known;
  for (const OptimizerTraits& traits : kOptimizers) {
    const auto number = static_cast<int64_t>(traits.kind);
    if (number == kind) return traits;
    known += (known.empty() ? "" : ", ") + std::to_string(number) + " (" + traits.name + ")";
  }
  TORCH_CHECK(false, op, ": unknown optimizer ", kind, "; valid: ", known);
}

struct Optimizer {
  const OptimizerTraits& traits;
  double learning_rate = 0;
  double eps = 0;
  double beta1 = 0;
  double beta2 = 0;
  double weight_decay = 0;
  int64_t iteration = 1;

  bool rowwise() const { return traits.rowwise; }
  bool decays_gradient() const { return traits.decay_is_gradient && weight_decay != 0; }
  bool writes_gradient() const { return decays_gradient() || traits.overwrites_gradient; }

  rows::Step step() const {
    rows::Step step{};
    step.learning_rate = static_cast<float>(learning_rate);
    step.eps = static_cast<float>(eps);
    step.beta1 = static_cast<float>(beta1);
    step.beta2 = static_cast<float>(beta2);
    step.rest1 = static_cast<float>(1.0 - beta1);
    step.rest2 = static_cast<float>(1.0 - beta2);
    step.weight_decay = decays_gradient() ? 0.0f : static_cast<float>(weight_decay);
    if (traits.corrects_moments) {
      const auto iterations = static_cast<double>(iteration);
      step.correction1 = static_cast<float>(1.0 / (1.0 - std::pow(beta1, iterations)));
      step.correction2 = static_cast<float>(1.0 / (1.0 - std::pow(beta2, iterations)));
    }
    return step;
  }

  rows::Update update(const rows::Kernels& kernels) const { return traits.update(kernels); }
};

}  // namespace hybrid_torchrec
