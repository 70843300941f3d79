#include <torch/library.h>

#include <limits>
#include <vector>

#include "row_math/bags.h"
#include "row_math/radix_sort.h"
#include "rows/optimizer.h"
#include "rows/rounding.h"
#include "rows/types.h"

// The fused optimizer step on the CPU: gradients are sorted by slot, those of a row are added up in the order of the
// slots, and the row takes one step, all by one thread. Results do not depend on the number of threads.
namespace hybrid_torchrec {
namespace {

constexpr const char* kOp = "update_rows";

// `source`: the row of the gradients, the bag where they are pooled; the sample, where samples have weights.
using Record = row_math::Contribution<uint32_t>;
using Sort = row_math::RadixSort<uint32_t>;

// Contiguous tensors of one call; bags where the gradients are those of pooled rows.
struct Gradients {
  at::Tensor slots;    // (L,)
  at::Tensor values;   // (L, D), or (B, D) with offsets
  at::Tensor offsets;  // (B + 1,) or undefined
  at::Tensor samples;  // (L,) or undefined
  bool mean = false;
};

struct State {
  float* momentum1 = nullptr;
  float* momentum2 = nullptr;
  int64_t* versions = nullptr;  // of the slots; each row that takes a step gets `version`
  int64_t version = 0;
};

// Memory of a call, kept for the next one of the thread: fresh pages cost as much as the sort.
struct Buffers {
  std::vector<Record> records;
  std::vector<Record> scratch;
  std::vector<uint32_t> bag_of;  // of samples with weights
};

constexpr int64_t kGrain = 64 * 1024;

void fill_bags(const Gradients& gradients, std::vector<uint32_t>& bag_of) {
  const int64_t* offsets = gradients.offsets.const_data_ptr<int64_t>();
  bag_of.resize(static_cast<size_t>(gradients.slots.numel()));
  for (int64_t bag = 0; bag + 1 < gradients.offsets.numel(); ++bag) {
    std::fill(bag_of.begin() + offsets[bag], bag_of.begin() + offsets[bag + 1], static_cast<uint32_t>(bag));
  }
}

void fill_records(const Gradients& gradients, Buffers& buffers) {
  const int64_t* slots = gradients.slots.const_data_ptr<int64_t>();
  const int64_t count = gradients.slots.numel();
  buffers.records.resize(static_cast<size_t>(count));
  Record* records = buffers.records.data();
  if (gradients.offsets.defined() && !gradients.samples.defined()) {
    const int64_t* offsets = gradients.offsets.const_data_ptr<int64_t>();
    const int64_t bags = gradients.offsets.numel() - 1;
    at::parallel_for(0, bags, std::max<int64_t>(1, kGrain * bags / count), [&](int64_t first, int64_t end) {
      for (int64_t bag = first; bag < end; ++bag) {
        for (int64_t k = offsets[bag]; k < offsets[bag + 1]; ++k) {
          records[k] = {static_cast<uint32_t>(slots[k]), static_cast<uint32_t>(bag)};
        }
      }
    });
    return;
  }
  at::parallel_for(0, count, kGrain, [&](int64_t first, int64_t end) {
    for (int64_t k = first; k < end; ++k) records[k] = {static_cast<uint32_t>(slots[k]), static_cast<uint32_t>(k)};
  });
  if (gradients.offsets.defined()) fill_bags(gradients, buffers.bag_of);
}

template <typename Row, typename Grad>
class RowUpdates {
 public:
  RowUpdates(const at::Tensor& weights, const State& state, const Gradients& gradients, const Optimizer& optimizer,
             std::optional<uint64_t> rounding, const std::vector<Record>& records, const std::vector<uint32_t>& bag_of)
      : weights_(row_data<Row>(weights)),
        state_(state),
        gradients_(row_data<const Grad>(gradients.values)),
        offsets_(gradients.offsets.defined() ? gradients.offsets.const_data_ptr<int64_t>() : nullptr),
        samples_(gradients.samples.defined() ? gradients.samples.const_data_ptr<float>() : nullptr),
        mean_(gradients.mean && offsets_ != nullptr),
        optimizer_(optimizer),
        step_(optimizer.step()),
        update_(optimizer.update(kernels_)),
        rounding_(rounding),
        records_(records),
        bag_of_(bag_of),
        width_(weights.size(1)),
        gradient_(kBatch * static_cast<size_t>(width_)),
        wide_(std::is_same_v<Row, float> ? 0 : kBatch * static_cast<size_t>(width_)) {}

  // Rows whose records start in [first, end).
  void run(size_t first, size_t end) {
    const size_t size = records_.size();
    while (first > 0 && first < size && records_[first].key == records_[first - 1].key) ++first;
    while (first < end) {
      count_ = summed_ = 0;
      while (first < end && count_ < kBatch) first = add_row(first);
      finish();
    }
  }

 private:
  static constexpr size_t kBatch = 32;

  size_t add_row(size_t first) {
    const uint32_t slot = records_[first].key;
    if (slot == 0) {  // the default row learns nothing
      while (first < records_.size() && records_[first].key == 0) ++first;
      return first;
    }
    size_t end = first + 1;
    while (end < records_.size() && records_[end].key == slot) ++end;
    if (const float* only = end == first + 1 ? unchanged(records_[first].source) : nullptr) {
      rows_[count_].gradient = only;
      fetch(only, width_);
    } else {
      rows_[count_].gradient = gradient_.data() + static_cast<int64_t>(summed_) * width_;
      add_sum(first, end);
    }
    slots_[count_] = slot;
    if (state_.versions != nullptr) fetch(state_.versions + slot, 1);
    stored_[count_] = weights_ + static_cast<int64_t>(slot) * width_;
    fetch(stored_[count_], width_);
    row_math::RowState& row = rows_[count_];
    if (state_.momentum1 != nullptr) {
      const int64_t width = optimizer_.rowwise() ? 1 : width_;
      row.momentum1 = state_.momentum1 + static_cast<int64_t>(slot) * width;
      fetch(row.momentum1, width);
    }
    if (state_.momentum2 != nullptr) {
      row.momentum2 = state_.momentum2 + static_cast<int64_t>(slot) * width_;
      fetch(row.momentum2, width_);
    }
    if constexpr (std::is_same_v<Row, float>) row.weights = stored_[count_];
    ++count_;
    return end;
  }

  // The gradient of a row to which nothing else contributes, where it is: nullptr if it has to be copied.
  const float* unchanged(uint32_t source) const {
    if constexpr (std::is_same_v<Grad, float>) {
      if (!scaled() && !optimizer_.decays_gradient() && !update_.overwrites_gradient)
        return gradients_ + static_cast<int64_t>(source) * width_;
    }
    return nullptr;
  }

  // The next sum of gradients: that of the records [first, end).
  void add_sum(size_t first, size_t end) {
    const auto at = static_cast<size_t>(starts_[summed_]);
    if (at + end - first > positions_.size()) {
      positions_.resize(2 * (at + end - first));
      scales_.resize(positions_.size());
    }
    if (scaled()) {
      scale(first, end, at);
    } else {
      for (size_t r = first; r < end; ++r) positions_[at + r - first] = records_[r].source;
    }
    starts_[++summed_] = static_cast<int64_t>(at + end - first);
  }

  // positions_ and scales_ from `at` of the records [first, end).
  void scale(size_t first, size_t end, size_t at) {
    for (size_t r = first; r < end; ++r, ++at) {
      const uint32_t source = records_[r].source;
      const uint32_t from = samples_ != nullptr && offsets_ != nullptr ? bag_of_[source] : source;
      positions_[at] = from;
      scales_[at] = samples_ == nullptr ? 1.0f : samples_[source];
      if (mean_) scales_[at] *= 1.0f / static_cast<float>(offsets_[from + 1] - offsets_[from]);
    }
  }

  bool scaled() const { return mean_ || samples_ != nullptr; }

  template <typename T>
  static void fetch(const T* data, int64_t count) {
    constexpr int64_t kPerLine = 64 / static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < std::min<int64_t>(count, 8 * kPerLine); i += kPerLine) __builtin_prefetch(data + i, 1);
  }

  void finish() {
    const auto count = static_cast<int64_t>(count_);
    if (count == 0) return;
    const auto& functions = kernels_.of(static_cast<const Row*>(nullptr));
    kernels_.of(gradients_)
        .pool64(gradients_, positions_.data(), starts_, static_cast<int64_t>(summed_), width_, width_,
                scaled() ? scales_.data() : nullptr, false, gradient_.data(), width_);
    if (state_.versions != nullptr) {
      for (size_t i = 0; i < count_; ++i) state_.versions[slots_[i]] = state_.version;
    }
    if constexpr (!std::is_same_v<Row, float>) {
      for (size_t i = 0; i < count_; ++i) {
        rows_[i].weights = wide_.data() + static_cast<int64_t>(i) * width_;
        functions.widen(stored_[i], rows_[i].weights, width_);
      }
    }
    if (optimizer_.decays_gradient()) {
      row_math::Step decay{};
      decay.weight_decay = static_cast<float>(optimizer_.weight_decay);
      kernels_.decay_gradients(rows_, count, width_, decay);
    }
    update_.run(rows_, count, width_, step_);
    if constexpr (!std::is_same_v<Row, float>) {
      for (size_t i = 0; i < count_; ++i) {
        if (rounding_) {
          Rounding(mix64(*rounding_, slots_[i])).narrow(rows_[i].weights, stored_[i], width_);
        } else {
          functions.narrow(rows_[i].weights, stored_[i], width_);
        }
      }
    }
  }

  const row_math::RowKernels& kernels_ = row_kernels();
  Row* weights_;
  State state_;
  const Grad* gradients_;
  const int64_t* offsets_;
  const float* samples_;
  bool mean_;
  const Optimizer& optimizer_;
  row_math::Step step_;
  row_math::Update update_;
  std::optional<uint64_t> rounding_;
  const std::vector<Record>& records_;
  const std::vector<uint32_t>& bag_of_;
  int64_t width_;
  // A batch of rows, and what contributes to them.
  size_t count_ = 0;
  size_t summed_ = 0;  // rows of the batch whose gradients are sums of several, or are written to
  row_math::RowState rows_[kBatch] = {};
  Row* stored_[kBatch] = {};
  uint32_t slots_[kBatch] = {};
  int64_t starts_[kBatch + 1] = {};
  std::vector<int64_t> positions_ = std::vector<int64_t>(256);
  std::vector<float> scales_ = std::vector<float>(256);
  std::vector<float> gradient_;
  std::vector<float> wide_;
};

Gradients checked(const at::Tensor& weights, const at::Tensor& slots, const at::Tensor& gradients,
                  const std::optional<at::Tensor>& offsets, bool mean, const std::optional<at::Tensor>& samples) {
  check_rows(kOp, weights, slots);
  Gradients result;
  result.slots = slots.contiguous();
  result.values = gradients.contiguous();
  result.mean = mean;
  const auto dtype = gradients.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, kOp,
              ": gradients must be float32, float16 or bfloat16, got ", dtype);
  TORCH_CHECK(slots.numel() < std::numeric_limits<uint32_t>::max(), kOp, ": at most 4294967294 slots, got ",
              slots.numel());
  if (offsets) {
    result.offsets = offsets->contiguous();
    check_offsets(kOp, result.offsets, slots.numel());
  }
  const int64_t expected = offsets ? offsets->numel() - 1 : slots.numel();
  TORCH_CHECK(gradients.dim() == 2 && gradients.size(0) == expected && gradients.size(1) == weights.size(1), kOp,
              ": gradients must be (", expected, ", ", weights.size(1), "), got ", gradients.sizes());
  if (samples) {
    result.samples = samples->to(at::kFloat).contiguous();
    TORCH_CHECK(samples->sizes() == slots.sizes(), kOp, ": weights of samples must have the shape of slots");
  }
  const int64_t* data = result.slots.const_data_ptr<int64_t>();
  if (!row_kernels().valid(data, slots.numel(), weights.size(0))) {
    fail_slot(kOp, data, slots.numel(), weights.size(0));
  }
  return result;
}

float* momentum(const std::optional<at::Tensor>& tensor, const at::Tensor& weights, bool wanted, bool rowwise,
                const char* name) {
  TORCH_CHECK(tensor.has_value() == wanted, kOp, ": ", name, wanted ? " is missing" : " is not used by this optimizer");
  if (!wanted) return nullptr;
  const int64_t size = rowwise ? weights.size(0) : weights.numel();
  TORCH_CHECK(tensor->scalar_type() == at::kFloat && tensor->is_contiguous() && tensor->numel() == size, kOp, ": ",
              name, " must be contiguous float32 of ", size, " elements, got ", tensor->scalar_type(), " of shape ",
              tensor->sizes());
  return tensor->mutable_data_ptr<float>();
}

// Raises for a number that no optimizer has.
const OptimizerKind& known_optimizer(int64_t number) {
  try {
    return find_kind(kOptimizers, "optimizer", number);
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK(false, kOp, ": ", error.what());
  }
}

void update_rows(const at::Tensor& weights, const std::optional<at::Tensor>& momentum1,
                 const std::optional<at::Tensor>& momentum2, const at::Tensor& slots, const at::Tensor& gradients,
                 const std::optional<at::Tensor>& offsets, bool mean, const std::optional<at::Tensor>& samples,
                 int64_t kind, double learning_rate, double eps, double beta1, double beta2, double weight_decay,
                 int64_t iteration, std::optional<int64_t> rounding, const std::optional<at::Tensor>& versions,
                 int64_t version) {
  const Optimizer optimizer{known_optimizer(kind), learning_rate, eps, beta1, beta2, weight_decay, iteration};
  TORCH_CHECK(iteration >= 1, kOp, ": iteration starts at 1, got ", iteration);
  const Gradients given = checked(weights, slots, gradients, offsets, mean, samples);
  State state;
  state.momentum1 = momentum(momentum1, weights, optimizer.kind.moments > 0, optimizer.rowwise(), "momentum1");
  state.momentum2 = momentum(momentum2, weights, optimizer.kind.moments > 1, false, "momentum2");
  if (versions) {
    const int64_t* data = given.slots.const_data_ptr<int64_t>();
    if (!row_kernels().valid(data, slots.numel(), versions->numel())) {
      fail_slot(kOp, data, slots.numel(), versions->numel());
    }
    state.versions = versions->mutable_data_ptr<int64_t>();
    state.version = version;
  }
  const auto count = static_cast<size_t>(slots.numel());
  if (count == 0) return;

  static thread_local Buffers own;
  Buffers& buffers = own;  // the calling thread's, for all threads
  fill_records(given, buffers);
  int64_t bits = 1;
  while (bits < 32 && (weights.size(0) >> bits) != 0) ++bits;
  const auto& records = Sort::run(buffers.records, buffers.scratch, bits);
  const std::optional<uint64_t> key =
      rounding ? std::optional<uint64_t>(mix64(static_cast<uint64_t>(*rounding), static_cast<uint64_t>(iteration)))
               : std::nullopt;
  const auto& bag_of = buffers.bag_of;
  with_row_type(weights.scalar_type(), [&](auto* row) {
    with_row_type(given.values.scalar_type(), [&](auto* gradient) {
      using Row = std::remove_const_t<std::remove_pointer_t<decltype(row)>>;
      using Grad = std::remove_const_t<std::remove_pointer_t<decltype(gradient)>>;
      const auto chunks = static_cast<size_t>(row_math::chunks_for(static_cast<int64_t>(count) * weights.size(1)));
      at::parallel_for(0, static_cast<int64_t>(chunks), 1, [&](int64_t from, int64_t to) {
        RowUpdates<Row, Grad> updates(weights, state, given, optimizer, key, records, bag_of);
        for (auto chunk = static_cast<size_t>(from); chunk < static_cast<size_t>(to); ++chunk) {
          updates.run(count * chunk / chunks, count * (chunk + 1) / chunks);
        }
      });
    });
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(hybrid_torchrec, CPU, m) { m.impl("update_rows", &update_rows); }

}  // namespace hybrid_torchrec
