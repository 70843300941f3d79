#pragma once

// Generated from hybrid_torchrec/kinds.py by generate_kinds.py; change these instead.

#include "common/kind.h"

namespace hybrid_torchrec {

// By what the parameters a and b are:
// Constant: the value
// Uniform: the lower bound; the upper bound
// Normal: the mean; the standard deviation
// TruncatedNormal: the mean; the standard deviation
enum class Distribution : int64_t { kConstant = 0, kUniform = 1, kNormal = 2, kTruncatedNormal = 3 };

struct InitializerKind {
  int64_t number;
  const char* name;

  Distribution distribution() const { return static_cast<Distribution>(number); }
};

constexpr InitializerKind kInitializers[] = {
    // clang-format off
    {0, "Constant"},
    {1, "Uniform"},
    {2, "Normal"},
    {3, "TruncatedNormal"},
    // clang-format on
};

}  // namespace hybrid_torchrec
