#pragma once

#include <vector>

#include "embedding/lookup.h"

// Validation of the embedding operators, shared by every back end and the Meta kernels.
namespace gr_ops::embedding {

// One feature's table and its columns of the output.
struct Feature {
  int64_t weights;  // position of the table in weights
  int64_t rows;
  int64_t width;      // D_t
  int64_t column;     // first column of the output
  int64_t key;        // of row 0, in the concatenated row space
  int64_t momentum1;  // position of the table's state
  int64_t momentum2;
};

// Dtypes, ranks, devices, plain arguments: what is known without looking into tensors.
void check_lookup(const char* op, const Lookup& lookup);
void check_gradient(const char* op, const at::Tensor& grad_output, const Lookup& lookup, const Optimizer& optimizer,
                    const UpdateOptions& options);
void check_optimizer(const char* op, const Lookup& lookup, const Optimizer& optimizer);

// T, and B for a lookup that has been checked.
c10::SymInt feature_count(const Lookup& lookup);
c10::SymInt batch_size(const Lookup& lookup);

// Reads the tables' description; every tensor on the CPU. Raises where parts of it contradict each other or the sizes
// of the tensors. output_width: total_D of a pooled output, or none.
std::vector<Feature> describe_features(const char* op, const Lookup& lookup, std::optional<int64_t> output_width);
void describe_state(const char* op, const Optimizer& optimizer, std::vector<Feature>& features);

// offsets on the CPU: 0 = first <= ... <= last = L.
void check_offset_values(const char* op, const Lookup& lookup);
// Features with the same rows must find them at the same place; offsets on the CPU, checked.
void check_shared_rows(const char* op, const Lookup& lookup, const std::vector<Feature>& features);

[[noreturn]] void fail_index(const char* op, int64_t position, int64_t value, int64_t rows);

// The lookup with every tensor on the CPU, for checks of values that live on a device.
Lookup to_cpu(const Lookup& lookup);
// Raises for an index outside its table; everything on the CPU.
void check_index_values(const char* op, const Lookup& lookup, const std::vector<Feature>& features);

}  // namespace gr_ops::embedding
