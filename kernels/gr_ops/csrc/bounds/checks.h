#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

// Validation of bounds_check_indices (docs/operators.md), shared by the back ends.
// Symbols: T tables, B batch, L indices; a bag is one (table, batch) pair, and bags are ordered by table.
namespace gr_ops {

constexpr const char* kBoundsOp = "bounds_check_indices";

enum class BoundsMode { fatal, warning, ignore, none };

// 0 FATAL, 1 WARNING, 2 IGNORE, 3 NONE, and 4, 5, 6 for IGNORE, WARNING, FATAL of version 2.
BoundsMode bounds_mode(int64_t mode, int64_t version);

struct BoundsArguments {
  const at::Tensor& rows_per_table;
  const at::Tensor& indices;
  const at::Tensor& offsets;
  const at::Tensor& warning;
  const std::optional<at::Tensor>& weights;
  const std::optional<at::Tensor>& batch_offsets;
  int64_t max_batch;
};

// Everything that does not need the data.
void check_bounds_arguments(const BoundsArguments& arguments);

// The first bag of each table and, at the end, the number of bags: [T + 1]. batch_offsets on the CPU.
std::vector<int64_t> first_bags(const at::Tensor& rows_per_table, const at::Tensor& offsets,
                                const std::optional<at::Tensor>& batch_offsets);

// What a violation is called in an exception and in the log.
std::string offset_violation(int64_t table, int64_t batch, int64_t start, int64_t end, int64_t count);
std::string index_violation(int64_t table, int64_t batch, int64_t position, int64_t value, int64_t limit);
std::string last_offset_violation(int64_t last, int64_t count);
std::string first_offset_violation(int64_t first);

}  // namespace gr_ops
