#pragma once

// Generated from hybrid_torchrec/kinds.py by generate_kinds.py; change these instead.

#include "common/kind.h"
#include "row_math/row_kernels.h"

namespace hybrid_torchrec {

struct OptimizerKind {
  int64_t number;
  const char* name;
  int64_t moments;         // tensors of state
  bool rowwise;            // the first of them has one number a row
  bool corrects_moments;   // by the number of the table's step
  bool decay_is_gradient;  // weight_decay is part of the gradient (L2), not of the step
  row_math::UpdateOf update;
};

constexpr OptimizerKind kOptimizers[] = {
    // clang-format off
    {0, "sgd", 0, false, false, true, &row_math::Updates::sgd},
    {1, "adagrad", 1, false, false, true, &row_math::Updates::adagrad},
    {2, "rowwise_adagrad", 1, true, false, true, &row_math::Updates::rowwise_adagrad},
    {3, "adam", 2, false, true, true, &row_math::Updates::adam},
    {4, "adamw", 2, false, true, false, &row_math::Updates::adam},
    {5, "lamb", 2, false, true, false, &row_math::Updates::lamb},
    {6, "lion", 1, false, false, false, &row_math::Updates::lion},
    // clang-format on
};

}  // namespace hybrid_torchrec
