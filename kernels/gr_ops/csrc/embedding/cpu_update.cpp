#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>

#include "embedding/cpu_rows.h"
#include "embedding/cpu_sort.h"
#include "embedding/operators.h"

// Backward pass on the CPU (spec/operators.md 6.5): contributions are sorted by row, every row is aggregated in the
// order of the indices and updated once, by one thread. Results do not depend on the number of threads.
namespace gr_ops::embedding {
namespace {

constexpr const char* kOp = "split_embedding_backward_codegen";

rows::Step step_of(const Optimizer& optimizer) {
  rows::Step step{};
  step.learning_rate = static_cast<float>(optimizer.learning_rate);
  step.eps = static_cast<float>(optimizer.eps);
  step.beta1 = static_cast<float>(optimizer.beta1);
  step.beta2 = static_cast<float>(optimizer.beta2);
  step.weight_decay = static_cast<float>(optimizer.weight_decay);
  step.weight_decay_mode = optimizer.weight_decay_mode;
  step.max_norm = static_cast<float>(optimizer.max_norm);
  if (optimizer.kind == rows::kAdam) {
    const auto iter = static_cast<double>(optimizer.iter);
    step.rest1 = static_cast<float>(1.0 - optimizer.beta1);
    step.rest2 = static_cast<float>(1.0 - optimizer.beta2);
    step.correction1 = static_cast<float>(1.0 / (1.0 - std::pow(optimizer.beta1, iter)));
    step.correction2 = static_cast<float>(1.0 / (1.0 - std::pow(optimizer.beta2, iter)));
  }
  return step;
}

// The backward pass of one lookup with CPU tensors, all contiguous and checked.
struct Pass {
  const Lookup& lookup;
  const Optimizer& optimizer;
  const std::vector<Feature>& features;
  at::Tensor offsets;      // int64
  at::Tensor grad_output;  // clipped
  int64_t batch;

  const int64_t* bag_offsets() const { return offsets.const_data_ptr<int64_t>(); }
  int64_t bags() const { return batch * static_cast<int64_t>(features.size()); }
  bool by_index() const { return lookup.pooling == kNone || lookup.indice_weights.has_value(); }
};

// Memory of a backward pass, kept for the next one of the thread: fresh pages cost as much as the sort.
template <typename Key>
struct Buffers {
  std::vector<Contribution<Key>> records;
  std::vector<Contribution<Key>> scratch;
  std::vector<uint32_t> bag_of_index;
};

// One record per index, in the order of the indices. Its source is the index where that matters, else the bag.
template <typename Key, typename Index>
void fill_contributions(const Pass& pass, Buffers<Key>& buffers) {
  const Index* indices = pass.lookup.indices.const_data_ptr<Index>();
  const int64_t* offsets = pass.bag_offsets();
  const bool by_index = pass.by_index();
  auto& records = buffers.records;
  auto& bag_of_index = buffers.bag_of_index;
  records.resize(static_cast<size_t>(pass.lookup.indices.numel()));
  if (by_index) bag_of_index.resize(records.size());
  FirstFault fault;
  for_bags(offsets, pass.bags(), 16, [&](int64_t first, int64_t end) {
    for (int64_t bag = first; bag < end;) {
      const int64_t t = bag / pass.batch;
      const Feature& feature = pass.features[static_cast<size_t>(t)];
      for (const int64_t stop = std::min(end, (t + 1) * pass.batch); bag < stop; ++bag) {
        for (int64_t k = offsets[bag]; k < offsets[bag + 1]; ++k) {
          const auto row = static_cast<int64_t>(indices[k]);
          if (static_cast<uint64_t>(row) >= static_cast<uint64_t>(feature.rows)) return fault.report(k);
          if (by_index) bag_of_index[static_cast<size_t>(k)] = static_cast<uint32_t>(bag);
          records[static_cast<size_t>(k)] = {static_cast<Key>(feature.key + row),
                                             static_cast<uint32_t>(by_index ? k : bag)};
        }
      }
    }
  });
  if (fault.found()) {
    const int64_t k = fault.position();
    const int64_t bag = std::upper_bound(offsets, offsets + pass.bags() + 1, k) - offsets - 1;
    fail_index(kOp, k, static_cast<int64_t>(indices[k]), pass.features[static_cast<size_t>(bag / pass.batch)].rows);
  }
}

// Aggregates and updates the rows of sorted contributions.
template <typename Row, typename Grad, typename Key>
class RowUpdates {
 public:
  using Record = Contribution<Key>;

  RowUpdates(const Pass& pass, const std::vector<Record>& records, const std::vector<uint32_t>& bag_of_index)
      : pass_(pass),
        records_(records),
        bag_of_index_(bag_of_index),
        kernels_(rows::row_kernels()),
        step_(step_of(pass.optimizer)),
        gradients_(row_data<const Grad>(pass.grad_output)),
        columns_(pass.grad_output.size(1)),
        weights_(row_data<Row>(pass.lookup.weights)),
        momentum1_(state(pass.optimizer.momentum1)),
        momentum2_(state(pass.optimizer.momentum2)),
        indice_weights_(pass.lookup.indice_weights ? pass.lookup.indice_weights->const_data_ptr<float>() : nullptr),
        scaled_(pass.lookup.pooling == kMean || indice_weights_ != nullptr),
        rowwise_(pass.optimizer.kind == rows::kRowwiseAdagrad) {}

  // Rows whose contributions start in [first, end).
  void run(size_t first, size_t end) {
    const size_t size = records_.size();
    while (first > 0 && first < size && records_[first].key == records_[first - 1].key) ++first;
    while (first < end && first < size) {
      const Feature& table = pass_.features[feature_of(bag_of(records_[first]))];
      begin_batch(table);
      while (first < end && first < size && count_ < kBatch && belongs(records_[first], table)) {
        first = add_row(first, table);
      }
      finish_batch(table);
    }
  }

 private:
  static constexpr size_t kBatch = 32;
  static constexpr size_t kStretch = 256;  // room for contributions, at first

  static float* state(const std::optional<at::Tensor>& tensor) {
    return tensor ? tensor->mutable_data_ptr<float>() : nullptr;
  }

  static bool belongs(const Record& record, const Feature& table) {
    const auto key = static_cast<int64_t>(record.key);
    return key >= table.key && key < table.key + table.rows;
  }

  size_t bag_of(const Record& record) const { return pass_.by_index() ? bag_of_index_[record.source] : record.source; }

  // The feature of a bag; neighbours mostly share it.
  size_t feature_of(size_t bag) {
    const auto batch = static_cast<size_t>(pass_.batch);
    if (bag < feature_ * batch || bag >= (feature_ + 1) * batch) feature_ = bag / batch;
    return feature_;
  }

  // Position of a contribution in grad_output.
  int64_t position_of(const Record& record, size_t bag) {
    if (pass_.lookup.pooling == kNone) return static_cast<int64_t>(record.source) * columns_;
    const size_t t = feature_of(bag);
    return static_cast<int64_t>(bag - t * static_cast<size_t>(pass_.batch)) * columns_ + pass_.features[t].column;
  }

  float scale_of(const Record& record, size_t bag) const {
    float scale = indice_weights_ == nullptr ? 1.0f : indice_weights_[record.source];
    if (pass_.lookup.pooling == kMean) {
      scale *= 1.0f / static_cast<float>(pass_.bag_offsets()[bag + 1] - pass_.bag_offsets()[bag]);
    }
    return scale;
  }

  void begin_batch(const Feature& table) {
    count_ = 0;
    sums_ = 0;
    starts_[0] = 0;
    const size_t size = kBatch * static_cast<size_t>(table.width);
    if (gradient_.size() < size) gradient_.resize(size);
  }

  // The gradient of the row whose contributions start at `first`, which is moved to where they end. A single one stays
  // where it is: most rows of a large table have no duplicate.
  const float* gradient_of(size_t& first, int64_t width) {
    const Record& record = records_[first];
    if constexpr (std::is_same_v<Grad, float>) {
      if (!scaled_ && (first + 1 == records_.size() || records_[first + 1].key != record.key)) {
        ++first;
        return gradients_ + position_of(record, bag_of(record));
      }
    }
    size_t at = static_cast<size_t>(starts_[sums_]);
    for (const Key key = record.key; first < records_.size() && records_[first].key == key; ++first, ++at) {
      if (at == positions_.size()) {
        positions_.resize(2 * at);
        if (scaled_) scales_.resize(2 * at);
      }
      const size_t bag = bag_of(records_[first]);
      positions_[at] = position_of(records_[first], bag);
      if (scaled_) scales_[at] = scale_of(records_[first], bag);
    }
    const float* gradient = gradient_.data() + static_cast<int64_t>(sums_) * width;
    starts_[++sums_] = static_cast<int64_t>(at);
    return gradient;
  }

  // The row whose contributions start at `first`; returns where they end.
  size_t add_row(size_t first, const Feature& table) {
    const int64_t row = static_cast<int64_t>(records_[first].key) - table.key;
    Row* weights = weights_ + table.weights + row * table.width;
    fetch(weights, table.width);
    rows::RowState& state = rows_[count_];
    state.gradient = gradient_of(first, table.width);
    if (momentum1_ != nullptr) {
      const int64_t width = rowwise_ ? 1 : table.width;
      state.momentum1 = momentum1_ + table.momentum1 + row * width;
      fetch(state.momentum1, width);
    }
    if (momentum2_ != nullptr) {
      state.momentum2 = momentum2_ + table.momentum2 + row * table.width;
      fetch(state.momentum2, table.width);
    }
    if constexpr (std::is_same_v<Row, float>) state.weights = weights;
    stored_[count_++] = weights;
    return first;
  }

  template <typename T>
  static void fetch(const T* data, int64_t count) {
    constexpr int64_t per_line = 64 / static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < std::min<int64_t>(count, 8 * per_line); i += per_line) __builtin_prefetch(data + i);
  }

  void finish_batch(const Feature& table) {
    const auto count = static_cast<int64_t>(count_);
    const int64_t width = table.width;
    kernels_.of(static_cast<const Grad*>(nullptr))
        .pool64(gradients_, positions_.data(), starts_, static_cast<int64_t>(sums_), 1, width,
                scaled_ ? scales_.data() : nullptr, false, gradient_.data(), width);
    const auto apply = kernels_.update[pass_.optimizer.kind];
    if constexpr (std::is_same_v<Row, float>) {
      apply(rows_, count, width, step_);
    } else {
      const auto& functions = kernels_.of(static_cast<const Row*>(nullptr));
      wide_.resize(static_cast<size_t>(count * width));
      for (int64_t i = 0; i < count; ++i) {
        rows_[static_cast<size_t>(i)].weights = wide_.data() + i * width;
        functions.widen(stored_[static_cast<size_t>(i)], wide_.data() + i * width, width);
      }
      apply(rows_, count, width, step_);
      for (int64_t i = 0; i < count; ++i) {
        functions.narrow(wide_.data() + i * width, stored_[static_cast<size_t>(i)], width);
      }
    }
  }

  const Pass& pass_;
  const std::vector<Record>& records_;
  const std::vector<uint32_t>& bag_of_index_;
  const rows::RowKernels& kernels_;
  const rows::Step step_;
  const Grad* gradients_;
  int64_t columns_;
  Row* weights_;
  float* momentum1_;
  float* momentum2_;
  const float* indice_weights_;
  bool scaled_;
  bool rowwise_;
  size_t feature_ = 0;
  // A batch of rows of one table, and what contributes to them.
  size_t count_ = 0;
  size_t sums_ = 0;  // rows whose gradient is a sum
  rows::RowState rows_[kBatch] = {};
  Row* stored_[kBatch];
  int64_t starts_[kBatch + 1];
  std::vector<int64_t> positions_ = std::vector<int64_t>(kStretch);
  std::vector<float> scales_ = std::vector<float>(kStretch);
  std::vector<float> gradient_;
  std::vector<float> wide_;
};

// grad[k] = dot(gradient of k's bag, weights of k's row), with the weights as they were in the forward pass.
template <typename Row, typename Grad, typename Index>
void weight_gradients(const Pass& pass, const UpdateOptions& options, const at::Tensor& result) {
  const auto& kernels = rows::row_kernels();
  const Index* indices = pass.lookup.indices.const_data_ptr<Index>();
  const int64_t* offsets = pass.bag_offsets();
  const Row* weights = row_data<const Row>(pass.lookup.weights);
  const Grad* gradients = row_data<const Grad>(pass.grad_output);
  const int64_t columns = pass.grad_output.size(1);
  float* out = result.mutable_data_ptr<float>();
  at::Tensor wanted;
  if (options.feature_requires_grad) wanted = options.feature_requires_grad->to(at::kLong).contiguous();
  for_bags(offsets, pass.bags(), pass.lookup.max_d.expect_int(), [&](int64_t first, int64_t end) {
    std::vector<float> gradient(static_cast<size_t>(pass.lookup.max_d.expect_int()));
    std::vector<float> weight(gradient.size());
    for (int64_t bag = first; bag < end; ++bag) {
      const int64_t t = bag / pass.batch;
      if (wanted.defined() && wanted.const_data_ptr<int64_t>()[t] == 0) continue;
      const Feature& feature = pass.features[static_cast<size_t>(t)];
      const int64_t count = offsets[bag + 1] - offsets[bag];
      const float scale = pass.lookup.pooling == kMean && count > 0 ? 1.0f / static_cast<float>(count) : 1.0f;
      const Grad* from = gradients + (bag - t * pass.batch) * columns + feature.column;
      kernels.of(from).widen(from, gradient.data(), feature.width);
      for (int64_t k = offsets[bag]; k < offsets[bag + 1]; ++k) {
        const Row* row = weights + feature.weights + static_cast<int64_t>(indices[k]) * feature.width;
        kernels.of(row).widen(row, weight.data(), feature.width);
        out[k] = scale * kernels.dot(gradient.data(), weight.data(), feature.width);
      }
    }
  });
}

template <typename Key, typename Row, typename Grad, typename Index>
void run(const Pass& pass, const UpdateOptions& options, int64_t bits, const at::Tensor& weights_gradient) {
  static thread_local Buffers<Key> own;
  Buffers<Key>& buffers = own;
  fill_contributions<Key, Index>(pass, buffers);
  if (options.weights_gradient) weight_gradients<Row, Grad, Index>(pass, options, weights_gradient);
  const auto& sorted = RadixSort<Key>::run(buffers.records, buffers.scratch, bits);
  const auto size = static_cast<int64_t>(sorted.size());
  const int64_t threads = size * pass.lookup.max_d.expect_int() < kSerialElements ? 1 : at::get_num_threads();
  const int64_t shares = threads == 1 ? 1 : threads * 4;
  at::parallel_for(0, shares, 1, [&](int64_t from, int64_t to) {
    RowUpdates<Row, Grad, Key> updates(pass, sorted, buffers.bag_of_index);
    for (int64_t share = from; share < to; ++share) {
      updates.run(static_cast<size_t>(size * share / shares), static_cast<size_t>(size * (share + 1) / shares));
    }
  });
}

at::Tensor update(const at::Tensor& grad_output, const Lookup& given, const Optimizer& optimizer,
                  const UpdateOptions& options) {
  check_gradient(kOp, grad_output, given, optimizer, options);
  Lookup lookup = given;
  lookup.indices = given.indices.contiguous();
  lookup.offsets = given.offsets.contiguous();
  if (given.indice_weights) lookup.indice_weights = given.indice_weights->contiguous();
  auto features = describe_features(kOp, lookup, grad_output.size(1));
  TORCH_CHECK(lookup.pooling != kNone || grad_output.size(1) == features[0].width, kOp,
              ": grad_output has the wrong shape; expected ", features[0].width, " columns, got ", grad_output.size(1));
  describe_state(kOp, optimizer, features);
  check_offset_values(kOp, lookup);
  const int64_t count = lookup.indices.numel();
  const at::Tensor weights_gradient =
      at::zeros({options.weights_gradient ? count : 0}, lookup.weights.options().dtype(at::kFloat));
  if (count == 0) return weights_gradient;
  TORCH_CHECK(
      count <= std::numeric_limits<uint32_t>::max() && lookup.offsets.numel() <= std::numeric_limits<uint32_t>::max(),
      kOp, ": indices is too long; expected at most ", std::numeric_limits<uint32_t>::max(), " indices and bags, got ",
      count, " and ", lookup.offsets.numel());
  at::Tensor gradient = grad_output.contiguous();
  if (options.max_gradient >= 0) gradient = gradient.clamp(-options.max_gradient, options.max_gradient);
  const Pass pass{lookup, optimizer, features, lookup.offsets.to(at::kLong), gradient, batch_size(lookup).expect_int()};

  int64_t rows = 0;
  for (const Feature& feature : features) rows = std::max(rows, feature.key + feature.rows);
  int64_t bits = 1;
  while (bits < 63 && (rows >> bits) != 0) ++bits;
  with_row_type(lookup.weights.scalar_type(), [&](auto* row) {
    with_row_type(gradient.scalar_type(), [&](auto* grad) {
      with_index_type(lookup.indices.scalar_type(), [&](auto* index) {
        using Row = std::remove_const_t<std::remove_pointer_t<decltype(row)>>;
        using Grad = std::remove_const_t<std::remove_pointer_t<decltype(grad)>>;
        using Index = std::remove_const_t<std::remove_pointer_t<decltype(index)>>;
        if (bits <= 32) {
          run<uint32_t, Row, Grad, Index>(pass, options, bits, weights_gradient);
        } else {
          run<uint64_t, Row, Grad, Index>(pass, options, bits, weights_gradient);
        }
      });
    });
  });
  return weights_gradient;
}

}  // namespace

TORCH_LIBRARY_IMPL(mxrec, CPU, m) { m.impl("embedding_update", &update_kernel<&update, int64_t>); }

}  // namespace gr_ops::embedding
