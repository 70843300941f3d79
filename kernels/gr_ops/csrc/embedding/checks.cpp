#include "embedding/checks.h"

#include <ATen/Dispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

namespace gr_ops::embedding {
namespace {

void check_vector(const char* op, const char* name, const at::Tensor& tensor, c10::Device device) {
  TORCH_CHECK(tensor.dim() == 1, op, ": ", name, " must be 1-D; expected 1 dimension, got shape ", tensor.sym_sizes());
  TORCH_CHECK(tensor.device() == device, op, ": expected ", name, " on ", device, ", got ", tensor.device());
}

void check_integers(const char* op, const char* name, const at::Tensor& tensor, c10::Device device) {
  check_vector(op, name, tensor, device);
  TORCH_CHECK(tensor.scalar_type() == at::kInt || tensor.scalar_type() == at::kLong, op, ": ", name,
              " has an unsupported dtype; expected int32 or int64, got ", tensor.scalar_type());
}

bool is_stored(at::ScalarType dtype) { return dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16; }

void check_state(const char* op, const char* name, const std::optional<at::Tensor>& state,
                 const std::optional<at::Tensor>& offsets, const Lookup& lookup) {
  TORCH_CHECK(state.has_value() && offsets.has_value(), op, ": ", name, " is missing; expected the optimizer's state");
  check_vector(op, name, *state, lookup.weights.device());
  TORCH_CHECK(state->scalar_type() == at::kFloat, op, ": ", name, " has an unsupported dtype; expected float32, got ",
              state->scalar_type());
  TORCH_CHECK(state->is_contiguous(), op, ": ", name, " must be contiguous because it is updated in place");
  check_integers(op, "momentum offsets", *offsets, lookup.weights.device());
  TORCH_SYM_CHECK(offsets->sym_numel().sym_eq(feature_count(lookup)), op, ": ", name,
                  "_offsets has the wrong size; expected ", feature_count(lookup), " features, got ",
                  offsets->sym_numel());
}

std::vector<int64_t> values_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  std::vector<int64_t> values(static_cast<size_t>(dense.numel()));
  if (dense.scalar_type() == at::kInt) {
    std::copy_n(dense.const_data_ptr<int32_t>(), values.size(), values.begin());
  } else {
    std::copy_n(dense.const_data_ptr<int64_t>(), values.size(), values.begin());
  }
  return values;
}

// The smallest value above `start`, or `otherwise`: where the next table begins.
int64_t next_start(const std::vector<int64_t>& starts, size_t count, int64_t start, int64_t otherwise) {
  int64_t next = otherwise;
  for (size_t t = 0; t < count; ++t) {
    if (starts[t] > start) next = std::min(next, starts[t]);
  }
  return next;
}

void check_state_values(const char* op, const char* name, const at::Tensor& state, int64_t start, int64_t size,
                        size_t t) {
  TORCH_CHECK(start >= 0 && size <= state.numel() - start, op, ": ", name, " is too small; expected at least ",
              start + size, " elements for feature ", t, ", got ", state.numel());
}

}  // namespace

c10::SymInt feature_count(const Lookup& lookup) { return lookup.d_offsets.sym_numel() - 1; }

c10::SymInt batch_size(const Lookup& lookup) { return (lookup.offsets.sym_numel() - 1) / feature_count(lookup); }

void check_lookup(const char* op, const Lookup& lookup) {
  const c10::Device device = lookup.weights.device();
  check_vector(op, "weights", lookup.weights, device);
  TORCH_CHECK(is_stored(lookup.weights.scalar_type()), op,
              ": weights has an unsupported dtype; expected float32, float16 or bfloat16, got ",
              lookup.weights.scalar_type());
  TORCH_CHECK(lookup.weights.is_contiguous(), op, ": weights must be contiguous because it is updated in place");
  check_integers(op, "weights_offsets", lookup.weights_offsets, device);
  check_integers(op, "D_offsets", lookup.d_offsets, device);
  check_integers(op, "indices", lookup.indices, device);
  check_integers(op, "offsets", lookup.offsets, device);
  TORCH_SYM_CHECK(lookup.d_offsets.sym_numel().sym_ge(2), op,
                  ": D_offsets has no feature; expected T+1 >= 2 entries, got ", lookup.d_offsets.sym_numel());
  const c10::SymInt features = feature_count(lookup);
  TORCH_SYM_CHECK(lookup.weights_offsets.sym_numel().sym_eq(features), op,
                  ": weights_offsets has the wrong size; expected ", features, " features as in D_offsets, got ",
                  lookup.weights_offsets.sym_numel());
  if (lookup.hash_size_cumsum) {
    check_integers(op, "hash_size_cumsum", *lookup.hash_size_cumsum, device);
    TORCH_SYM_CHECK(lookup.hash_size_cumsum->sym_numel().sym_eq(features + 1), op,
                    ": hash_size_cumsum has the wrong size; expected ", features + 1, " entries, got ",
                    lookup.hash_size_cumsum->sym_numel());
  }
  TORCH_SYM_CHECK(lookup.offsets.sym_numel().sym_ge(1), op, ": offsets is empty; expected T*B+1 entries, got 0");
  TORCH_SYM_CHECK(((lookup.offsets.sym_numel() - 1) % features).sym_eq(0), op,
                  ": offsets must have T*B+1 entries; expected a multiple of T = ", features, " plus 1, got ",
                  lookup.offsets.sym_numel());
  TORCH_CHECK(lookup.pooling >= kSum && lookup.pooling <= kNone, op,
              ": pooling_mode must be 0 (SUM), 1 (MEAN) or 2 (NONE), got ", lookup.pooling);
  if (lookup.indice_weights) {
    check_vector(op, "indice_weights", *lookup.indice_weights, device);
    TORCH_CHECK(lookup.pooling != kNone, op,
                ": indice_weights has no meaning with pooling_mode NONE; expected None, got a tensor");
    TORCH_CHECK(lookup.indice_weights->scalar_type() == at::kFloat, op,
                ": indice_weights has an unsupported dtype; expected float32, got ",
                lookup.indice_weights->scalar_type());
    TORCH_SYM_CHECK(lookup.indice_weights->sym_numel().sym_eq(lookup.indices.sym_numel()), op,
                    ": indice_weights has the wrong size; expected ", lookup.indices.sym_numel(),
                    " weights as indices, got ", lookup.indice_weights->sym_numel());
  }
}

void check_optimizer(const char* op, const Lookup& lookup, const Optimizer& optimizer) {
  if (optimizer.has_momentum1()) {
    check_state(op, "momentum1", optimizer.momentum1, optimizer.momentum1_offsets, lookup);
  }
  if (optimizer.has_momentum2()) {
    check_state(op, "momentum2", optimizer.momentum2, optimizer.momentum2_offsets, lookup);
  }
}

void check_gradient(const char* op, const at::Tensor& grad_output, const Lookup& lookup, const Optimizer& optimizer,
                    const UpdateOptions& options) {
  check_lookup(op, lookup);
  check_optimizer(op, lookup, optimizer);
  TORCH_CHECK(!optimizer.traits().counts_steps || optimizer.iter >= 1, op,
              ": iter must be positive for Adam; expected the number of this step, from 1, got ", optimizer.iter);
  TORCH_CHECK(is_stored(grad_output.scalar_type()), op,
              ": grad_output has an unsupported dtype; expected float32, float16 or bfloat16, got ",
              grad_output.scalar_type());
  TORCH_CHECK(grad_output.device() == lookup.weights.device(), op, ": expected grad_output on ",
              lookup.weights.device(), ", got ", grad_output.device());
  const c10::SymInt rows = lookup.pooling == kNone ? lookup.indices.sym_numel() : batch_size(lookup);
  TORCH_CHECK(grad_output.dim() == 2 && grad_output.sym_size(0) == rows, op,
              ": grad_output has the wrong shape; expected [", rows, ", D], got ", grad_output.sym_sizes());
  TORCH_CHECK(lookup.hash_size_cumsum.has_value(), op, ": hash_size_cumsum is missing");
  TORCH_CHECK(!options.weights_gradient || lookup.indice_weights.has_value(), op,
              ": indice_weights is missing; expected weights whose gradient is asked for, got None");
  if (options.feature_requires_grad) {
    const at::Tensor& mask = *options.feature_requires_grad;
    check_integers(op, "feature_requires_grad", mask, mask.device());
    TORCH_SYM_CHECK(mask.sym_numel().sym_eq(feature_count(lookup)), op,
                    ": feature_requires_grad has the wrong size; expected ", feature_count(lookup), " features, got ",
                    mask.sym_numel());
  }
}

std::vector<Feature> describe_features(const char* op, const Lookup& lookup, std::optional<int64_t> output_width) {
  const auto columns = values_of(lookup.d_offsets);
  const auto starts = values_of(lookup.weights_offsets);
  const size_t count = starts.size();
  const int64_t max_d = lookup.max_d.expect_int();
  TORCH_CHECK(columns[0] == 0, op, ": D_offsets must start with 0, got ", columns[0]);
  std::vector<int64_t> keys;
  if (lookup.hash_size_cumsum) keys = values_of(*lookup.hash_size_cumsum);
  std::vector<Feature> features(count);
  for (size_t t = 0; t < count; ++t) {
    Feature& feature = features[t];
    feature = {starts[t], 0, columns[t + 1] - columns[t], columns[t], 0, 0, 0};
    TORCH_CHECK(feature.width > 0, op, ": D_offsets must increase; expected D_offsets[", t + 1, "] > ", columns[t],
                ", got ", columns[t + 1]);
    TORCH_CHECK(feature.width <= max_d, op, ": max_D is too small; expected at least ", feature.width, " as feature ",
                t, " has, got ", max_d);
    TORCH_CHECK(lookup.pooling != kNone || feature.width == features[0].width, op,
                ": pooling_mode NONE needs equal embedding dims; expected ", features[0].width,
                " as feature 0 has, got ", feature.width, " of feature ", t);
    const int64_t weights_end = lookup.weights.numel();
    TORCH_CHECK(feature.weights >= 0 && feature.weights <= weights_end, op, ": weights_offsets[", t,
                "] is outside weights; expected 0 to ", weights_end, ", got ", feature.weights);
    if (lookup.hash_size_cumsum) {
      feature.key = keys[t];
      TORCH_CHECK(feature.key >= 0 && feature.key <= keys[count], op, ": hash_size_cumsum[", t,
                  "] is out of order; expected 0 to ", keys[count], ", got ", feature.key);
      feature.rows = next_start(keys, count + 1, feature.key, keys[count]) - feature.key;
      TORCH_CHECK(feature.rows <= (weights_end - feature.weights) / feature.width, op,
                  ": weights is too small; expected at least ", feature.weights + feature.rows * feature.width,
                  " elements for feature ", t, ", got ", weights_end);
    } else {
      feature.rows = (next_start(starts, count, feature.weights, weights_end) - feature.weights) / feature.width;
    }
  }
  if (output_width) {
    TORCH_CHECK(lookup.pooling == kNone || *output_width == columns[count], op,
                ": total_D differs from D_offsets; expected ", columns[count], ", got ", *output_width);
  }
  return features;
}

void describe_state(const char* op, const Optimizer& optimizer, std::vector<Feature>& features) {
  const bool rowwise = optimizer.traits().rowwise;
  if (optimizer.has_momentum1()) {
    const auto starts = values_of(*optimizer.momentum1_offsets);
    for (size_t t = 0; t < features.size(); ++t) {
      features[t].momentum1 = starts[t];
      const int64_t size = features[t].rows * (rowwise ? 1 : features[t].width);
      check_state_values(op, "momentum1", *optimizer.momentum1, starts[t], size, t);
    }
  }
  if (optimizer.has_momentum2()) {
    const auto starts = values_of(*optimizer.momentum2_offsets);
    for (size_t t = 0; t < features.size(); ++t) {
      features[t].momentum2 = starts[t];
      check_state_values(op, "momentum2", *optimizer.momentum2, starts[t], features[t].rows * features[t].width, t);
    }
  }
}

void check_offset_values(const char* op, const Lookup& lookup) {
  AT_DISPATCH_INDEX_TYPES(lookup.offsets.scalar_type(), "check_offset_values", [&] {
    const index_t* offsets = lookup.offsets.const_data_ptr<index_t>();
    const int64_t bags = lookup.offsets.numel() - 1;
    TORCH_CHECK(offsets[0] == 0, op, ": offsets[0] is wrong; expected 0, got ", offsets[0]);
    const bool ordered = row_math::row_kernels().ascending(offsets, bags + 1);
    for (int64_t bag = 0; !ordered && bag < bags; ++bag) {
      TORCH_CHECK(offsets[bag] <= offsets[bag + 1], op, ": offsets must not decrease; expected offsets[", bag + 1,
                  "] >= ", offsets[bag], ", got ", offsets[bag + 1]);
    }
    TORCH_CHECK(offsets[bags] == lookup.indices.numel(), op, ": offsets[", bags,
                "] differs from the number of indices; expected ", lookup.indices.numel(), ", got ", offsets[bags]);
  });
}

void check_shared_rows(const char* op, const Lookup& lookup, const std::vector<Feature>& features) {
  const at::Tensor ends = lookup.offsets.to(at::kLong);
  const int64_t* offsets = ends.const_data_ptr<int64_t>();
  const int64_t batch = (lookup.offsets.numel() - 1) / static_cast<int64_t>(features.size());
  const auto used = [&](size_t t) {
    return offsets[static_cast<int64_t>(t) * batch] < offsets[static_cast<int64_t>(t + 1) * batch];
  };
  int64_t highest = -1;
  for (size_t t = 0; t < features.size(); ++t) {
    const Feature& feature = features[t];
    for (size_t s = 0; feature.key <= highest && s < t; ++s) {
      // A table without rows has the key of the next one.
      if (features[s].key != feature.key || feature.rows == 0 || !used(s) || !used(t)) continue;
      TORCH_CHECK(features[s].width == feature.width && features[s].weights == feature.weights, op,
                  ": hash_size_cumsum gives features ", s, " and ", t, " the same rows; expected the width ",
                  features[s].width, " and the position ", features[s].weights, " in weights, got ", feature.width,
                  " and ", feature.weights);
    }
    highest = std::max(highest, feature.key);
  }
}

void fail_index(const char* op, int64_t position, int64_t value, int64_t rows) {
  TORCH_CHECK(false, op, ": Index ", position, " is out of bounds: ", value, ", range 0 to ", rows);
}

Lookup to_cpu(const Lookup& lookup) {
  Lookup host = lookup;
  for (at::Tensor* tensor : {&host.weights_offsets, &host.d_offsets, &host.indices, &host.offsets}) {
    *tensor = tensor->cpu().contiguous();
  }
  if (host.hash_size_cumsum) host.hash_size_cumsum = host.hash_size_cumsum->cpu();
  return host;
}

void check_index_values(const char* op, const Lookup& lookup, const std::vector<Feature>& features) {
  const auto offsets = values_of(lookup.offsets);
  const auto indices = values_of(lookup.indices);
  const int64_t batch = batch_size(lookup).expect_int();
  for (size_t t = 0; t < features.size(); ++t) {
    const auto first = offsets[t * static_cast<size_t>(batch)];
    const auto end = offsets[(t + 1) * static_cast<size_t>(batch)];
    for (int64_t k = first; k < end; ++k) {
      const int64_t row = indices[static_cast<size_t>(k)];
      if (row < 0 || row >= features[t].rows) fail_index(op, k, row, features[t].rows);
    }
  }
}

}  // namespace gr_ops::embedding
