#pragma once

#include <cstdint>

#include "rows/initializer_kinds.h"

namespace hybrid_torchrec {

// Values of new rows, from a counter-based hash: element `column` of a row depends on (seed, key, column) only.
struct Initializer {
  Distribution distribution = Distribution::kConstant;
  double a = 0.0;  // initializer_kinds.h says what a and b are
  double b = 0.0;
  double low = 0.0;  // of the truncated normal: the probabilities below the two bounds
  double high = 1.0;
  uint64_t seed = 0;

  // row[0:width] of the row of `key`.
  void fill(int64_t key, float* row, int64_t width) const;

 private:
  // The value of u, which is uniform on (0, 1).
  double drawn(double u) const;
};

// The number below which a standard normal variable is with probability p, 0 < p < 1; relative error 1e-16.
// Algorithm AS 241 (PPND16), M. J. Wichura, Applied Statistics 37 (1988).
double normal_quantile(double p);

}  // namespace hybrid_torchrec
