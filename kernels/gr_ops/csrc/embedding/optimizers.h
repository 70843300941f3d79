#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <string>

#include "row_math/row_kernels.h"

namespace gr_ops::embedding {

// What is known of an optimizer: behaviour is read from here, and never follows from the order of the numbers.
struct OptimizerTraits {
  int64_t number;    // of mxrec.embedding_update; hybrid_torchrec/kinds.py has the same, and its tests compare
  const char* name;  // in the names of fbgemm's operators
  bool has_momentum1;
  bool has_momentum2;
  bool rowwise;               // momentum1 is one number a row
  bool counts_steps;          // corrects its moments by the number of the step
  int64_t npu_type;           // optim_type of the NPU's operator
  bool refused_by_fbgemm;     // fbgemm_gpu's lookup on the CPU raises
  row_math::UpdateOf update;  // of the CPU
};

constexpr OptimizerTraits kOptimizers[] = {
    {0, "sgd", false, false, false, false, 3, false, &row_math::Updates::sgd},
    {1, "adagrad", true, false, false, false, 1, false, &row_math::Updates::adagrad},
    {2, "rowwise_adagrad", true, false, true, false, 4, false, &row_math::Updates::rowwise_adagrad},
    {3, "adam", true, true, false, true, 2, true, &row_math::Updates::adam},
};

// Raises for a number that none of the above has.
inline const OptimizerTraits& optimizer_traits(const char* op, int64_t number) {
  std::string known;
  for (const OptimizerTraits& traits : kOptimizers) {
    if (traits.number == number) return traits;
    known += (known.empty() ? "" : ", ") + std::to_string(traits.number) + " (" + traits.name + ")";
  }
  TORCH_CHECK(false, op, ": optimizer is unknown; expected one of ", known, ", got ", number);
}

}  // namespace gr_ops::embedding
