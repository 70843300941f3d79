#pragma once

#include <cstdint>

namespace hybrid_torchrec {

// Values of new rows, from a counter-based hash: element `column` of a row depends on (seed, key, column) only.
struct Initializer {
  enum Kind : int64_t { kConstant = 0, kUniform = 1, kNormal = 2, kTruncatedNormal = 3 };
  Kind kind = kConstant;
  double a = 0.0;    // the constant; the lower bound; the mean
  double b = 0.0;    // the upper bound; the standard deviation
  double low = 0.0;  // kTruncatedNormal: the probabilities below the two bounds
  double high = 1.0;
  uint64_t seed = 0;

  // The kind of a number; throws std::invalid_argument if it has none.
  static Kind known(int64_t kind);
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
