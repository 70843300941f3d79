#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <string>

#include "row_math/row_kernels.h"

namespace gr_ops::embedding {

// What is known of an optimizer: behaviour is read from here, and never follows from the order of the kinds.
struct OptimizerTraits {
  rows::OptimizerKind kind;
  const char* name;  // in the names of fbgemm's operators
  bool has_momentum1;
  bool has_momentum2;
  bool rowwise;       // momentum1 is one number a row
  bool counts_steps;  // corrects its moments by the number of the step
  int64_t npu_type;   // optim_type of the NPU's operator (spec/operators.md 6.8)
};

constexpr OptimizerTraits kOptimizers[] = {
    {rows::kSgd, "sgd", false, false, false, false, 3},
    {rows::kAdagrad, "adagrad", true, false, false, false, 1},
    {rows::kRowwiseAdagrad, "rowwise_adagrad", true, false, true, false, 4},
    {rows::kAdam, "adam", true, true, false, true, 2},
};

// Raises for a kind that is none of the above.
inline const OptimizerTraits& optimizer_traits(const char* op, int64_t kind) {
  std::string known;
  for (const OptimizerTraits& traits : kOptimizers) {
    if (static_cast<int64_t>(traits.kind) == kind) return traits;
    known += (known.empty() ? "" : ", ") + std::to_string(traits.kind) + " (" + traits.name + ")";
  }
  TORCH_CHECK(false, op, ": optimizer is unknown; expected one of ", known, ", got ", kind);
}

}  // namespace gr_ops::embedding
