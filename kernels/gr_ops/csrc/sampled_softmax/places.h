#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sampled_softmax/arguments.h"

// What the ids of a call say, checked: everything that follows relies on it.
namespace gr_ops::sampled_softmax {

// Tokens of a group that are worked on together.
struct Part {
  int64_t group;
  int64_t first, last;  // in Parts::tokens
};

// The tokens, group by group, and the parts of all groups: the same whatever the number of threads is, so that sums
// over a part have the same bits.
struct Parts {
  std::vector<int64_t> tokens;
  std::vector<Part> parts;

  Parts(const char* op, int64_t count, int64_t groups, int64_t group, const OptionalTensor& place);
};

// Where each row occurs: entries[starts[u] to starts[u + 1]) are the tokens whose target it is, and behind them
// I + part * R + r for the r-th negative of each part.
struct Occurrences {
  std::vector<int64_t> starts, entries;

  Occurrences(const char* op, int64_t rows, const at::Tensor& targets, const at::Tensor& negatives,
              const std::vector<Part>& parts);
};

}  // namespace gr_ops::sampled_softmax
