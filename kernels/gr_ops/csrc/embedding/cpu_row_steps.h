#pragma once

#include <cmath>

#include "embedding/cpu_marks.h"
#include "embedding/cpu_rows.h"
#include "row_math/radix_sort.h"
#include "row_math/rounding_draws.h"

namespace gr_ops::embedding {

inline row_math::Step step_of(const Optimizer& optimizer) {
  row_math::Step step{};
  step.learning_rate = static_cast<float>(optimizer.learning_rate);
  step.eps = static_cast<float>(optimizer.eps);
  step.beta1 = static_cast<float>(optimizer.beta1);
  step.beta2 = static_cast<float>(optimizer.beta2);
  step.weight_decay = static_cast<float>(optimizer.weight_decay);
  step.weight_decay_mode = optimizer.weight_decay_mode;
  step.max_norm = static_cast<float>(optimizer.max_norm);
  if (optimizer.traits().counts_steps) {
    const auto iter = static_cast<double>(optimizer.iter);
    step.rest1 = static_cast<float>(1.0 - optimizer.beta1);
    step.rest2 = static_cast<float>(1.0 - optimizer.beta2);
    step.correction1 = static_cast<float>(1.0 / (1.0 - std::pow(optimizer.beta1, iter)));
    step.correction2 = static_cast<float>(1.0 / (1.0 - std::pow(optimizer.beta2, iter)));
  }
  return step;
}

// What stochastic rounding draws by, for rows of up to `width` columns.
class ChanceOfRows {
 public:
  ChanceOfRows(uint64_t seed, int64_t width) : seed_(seed) {
    for (int64_t column = 0; column < width; ++column) {
      const uint64_t word = row_math::column_word(seed, column);
      factors_.push_back(row_math::factor_of(word));
      terms_.push_back(row_math::term_of(word));
      lasts_.push_back(row_math::last_of(word));
    }
  }

  // Of the row that starts at element `start` of the weights.
  row_math::RowDraws of_row(int64_t start) const {
    const uint64_t word = row_math::row_word(seed_, start);
    return {row_math::factor_of(word), row_math::term_of(word), row_math::last_of(word),
            factors_.data(),           terms_.data(),           lasts_.data()};
  }

 private:
  uint64_t seed_;
  std::vector<uint32_t> factors_;
  std::vector<uint32_t> terms_;
  std::vector<uint32_t> lasts_;
};

// The backward pass of one lookup with CPU tensors, all contiguous and checked.
struct Pass {
  const Lookup& lookup;
  const Optimizer& optimizer;
  const std::vector<Feature>& features;
  at::Tensor offsets;      // int64
  at::Tensor grad_output;  // clipped
  int64_t batch;
  std::optional<ChanceOfRows> rounding;  // none: to the nearest

  const int64_t* bag_offsets() const { return offsets.const_data_ptr<int64_t>(); }
  int64_t bags() const { return batch * static_cast<int64_t>(features.size()); }
  int64_t bag_at(int64_t index) const {
    return std::upper_bound(bag_offsets(), bag_offsets() + bags() + 1, index) - bag_offsets() - 1;
  }
  bool by_index() const { return lookup.pooling == kNone || lookup.indice_weights.has_value(); }
};

// Memory of a backward pass, kept for the next one of the thread: fresh pages cost as much as the sort.
template <typename Key>
struct Buffers {
  Marks marks;
  std::vector<uint32_t> bags;                        // of the indices
  std::vector<row_math::Contribution<Key>> found;    // to repeated rows, each thread's at the start of its indices
  std::vector<row_math::Contribution<Key>> records;  // the same without gaps
  std::vector<row_math::Contribution<Key>> scratch;

  // All that `size` indices can need: no memory may be missing once rows have moved.
  void prepare(size_t size) {
    bags.resize(size);
    if (found.size() < size) found.resize(size);
    records.reserve(size);
    scratch.reserve(size);
  }
};

template <typename Key>
Buffers<Key>& own_buffers() {
  static thread_local Buffers<Key> buffers;
  return buffers;
}

// Where a table's rows and their states are; states that the optimizer does not have are nullptr.
template <typename Row>
struct TableRows {
  Row* weights;
  float* momentum1;
  float* momentum2;
  int64_t width;
  int64_t momentum1_width;

  // Points at a row and its states, and asks for them.
  void point_at(int64_t row, row_math::RowState& state, Row*& stored) const {
    stored = weights + row * width;
    fetch(stored, width);
    if (momentum1 != nullptr) {
      state.momentum1 = momentum1 + row * momentum1_width;
      fetch(state.momentum1, momentum1_width);
    }
    if (momentum2 != nullptr) {
      state.momentum2 = momentum2 + row * width;
      fetch(state.momentum2, width);
    }
    if constexpr (std::is_same_v<Row, float>) state.weights = stored;
  }

 private:
  template <typename T>
  static void fetch(const T* data, int64_t count) {
    constexpr int64_t kPerLine = 64 / static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < std::min<int64_t>(count, 8 * kPerLine); i += kPerLine) __builtin_prefetch(data + i);
  }
};

// Where gradients come from, and one optimizer step for some rows at a time.
template <typename Row, typename Grad>
class RowSteps {
 public:
  RowSteps(const Pass& pass, const uint32_t* bags)
      : pass_(pass),
        bags_(bags),
        kernels_(row_math::row_kernels()),
        gradients_(row_data<const Grad>(pass.grad_output)),
        columns_(pass.grad_output.size(1)),
        indice_weights_(pass.lookup.indice_weights ? pass.lookup.indice_weights->const_data_ptr<float>() : nullptr),
        scaled_(pass.lookup.pooling == kMean || indice_weights_ != nullptr),
        step_(step_of(pass.optimizer)),
        weights_(row_data<Row>(pass.lookup.weights)),
        momentum1_(state(pass.optimizer.momentum1)),
        momentum2_(state(pass.optimizer.momentum2)),
        rowwise_(pass.optimizer.traits().rowwise) {}

 protected:
  // The source of a contribution is its index where that matters, else its bag.
  size_t bag_of(uint32_t source) const { return pass_.by_index() ? bags_[source] : source; }

  // Position of a contribution of feature t in grad_output.
  int64_t position_of(uint32_t source, size_t bag, size_t t) const {
    if (pass_.lookup.pooling == kNone) return static_cast<int64_t>(source) * columns_;
    return static_cast<int64_t>(bag - t * static_cast<size_t>(pass_.batch)) * columns_ + pass_.features[t].column;
  }

  float scale_of(uint32_t source, size_t bag) const {
    float scale = indice_weights_ == nullptr ? 1.0f : indice_weights_[source];
    if (pass_.lookup.pooling == kMean) {
      scale *= 1.0f / static_cast<float>(pass_.bag_offsets()[bag + 1] - pass_.bag_offsets()[bag]);
    }
    return scale;
  }

  // sums[i] = the contributions at [starts[i], starts[i + 1]) of positions and scales.
  void add_up(const int64_t* positions, const float* scales, const int64_t* starts, size_t sums, int64_t width,
              float* out) const {
    kernels_.of(static_cast<const Grad*>(nullptr))
        .pool64(gradients_, positions, starts, static_cast<int64_t>(sums), 1, width, scales, false, out, width);
  }

  TableRows<Row> rows_of(const Feature& table) const {
    return {weights_ + table.weights, momentum1_ == nullptr ? nullptr : momentum1_ + table.momentum1,
            momentum2_ == nullptr ? nullptr : momentum2_ + table.momentum2, table.width, rowwise_ ? 1 : table.width};
  }

  void apply(row_math::RowState* states, Row* const* stored, size_t rows, int64_t width) {
    const auto count = static_cast<int64_t>(rows);
    const auto update = (kernels_.updates.*pass_.optimizer.traits().update).run;
    if constexpr (std::is_same_v<Row, float>) {
      update(states, count, width, step_);
    } else {
      const auto& functions = kernels_.of(static_cast<const Row*>(nullptr));
      wide_.resize(static_cast<size_t>(count * width));
      for (int64_t i = 0; i < count; ++i) {
        states[i].weights = wide_.data() + i * width;
        functions.widen(stored[i], wide_.data() + i * width, width);
      }
      update(states, count, width, step_);
      for (int64_t i = 0; i < count; ++i) {
        const float* updated = wide_.data() + i * width;
        if (pass_.rounding) {
          functions.round(updated, stored[i], width, pass_.rounding->of_row(stored[i] - weights_));
        } else {
          functions.narrow(updated, stored[i], width);
        }
      }
    }
  }

  const Pass& pass_;
  const uint32_t* bags_;  // of the indices
  const row_math::RowKernels& kernels_;
  const Grad* gradients_;
  int64_t columns_;
  const float* indice_weights_;
  bool scaled_;

 private:
  static float* state(const std::optional<at::Tensor>& tensor) {
    return tensor ? tensor->mutable_data_ptr<float>() : nullptr;
  }

  const row_math::Step step_;
  Row* weights_;
  float* momentum1_;
  float* momentum2_;
  bool rowwise_;
  std::vector<float> wide_;
};

}  // namespace gr_ops::embedding
